"""The rooms are layers: a lower one never imports a higher one, not even lazily or for types, and there is no cycle."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from support import ROOT

ROOMS = (
    *("core", "config", "data", "models", "checkpoints", "metrics", "methods"),
    *("lineage", "pipeline", "training", "plan", "reports", "page", "trial", "cli"),
)
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "rtm").rglob("*.py"))
}


def imported(module: str, path: Path) -> Iterator[str]:
    """The modules of rtm/ that a module imports anywhere in its text."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: write the whole name of {node.module}"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES else str(node.module) for name in names if node.module in MODULES)


@cache
def imports() -> dict[str, set[str]]:
    return {module: set(imported(module, path)) - {module} for module, path in MODULES.items()}


def room(module: str) -> str:
    return module.split(".")[1]


@pytest.mark.parametrize("module", [module for module in MODULES if module.count(".")])
def test_a_room_imports_lower_rooms_only(module: str) -> None:
    if module == "rtm.__main__":
        return
    too_high = {
        used for used in imports()[module] if used != "rtm" and ROOMS.index(room(used)) > ROOMS.index(room(module))
    }
    assert not too_high


def test_no_import_goes_round() -> None:
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_the_test_of_a_module_is_found_by_its_name() -> None:
    """Two modules need none: tests/scenarios/test_one_code.py starts rtm/__main__.py, and an architecture is plain
    data."""
    expected = {
        module: ROOT / "tests" / path.relative_to(ROOT / "rtm").with_name(f"test_{path.name}")
        for module, path in MODULES.items()
        if path.name != "__init__.py"
    }
    without = {module for module, path in expected.items() if not path.exists()}
    assert without == {"rtm.__main__", "rtm.config.architecture"}


def test_the_core_is_compact() -> None:
    """These are the design's limits. A room above them must be split, or lose code, or use a library instead."""
    lines = dict.fromkeys(ROOMS, 0)
    for module, path in MODULES.items():
        if module.count(".") and module != "rtm.__main__":
            lines[room(module)] += len(path.read_text().splitlines())
    assert max(lines.values()) < 2500
    assert sum(lines[name] for name in ("core", "models", "methods", "training")) < 4000


def test_the_documented_graph_is_the_real_one() -> None:
    used: dict[str, set[str]] = {name: set() for name in ROOMS}
    for module, lower in imports().items():
        if module.count(".") and module != "rtm.__main__":
            used[room(module)] |= {room(each) for each in lower if each != "rtm"} - {room(module)}
    graph = "\n".join(f"{name:<11} {' '.join(sorted(used[name], key=ROOMS.index))}" for name in ROOMS)
    assert graph in (ROOT / "docs/contributing.md").read_text()
