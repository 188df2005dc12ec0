"""The rooms are layers: a lower one never imports a higher one, not even lazily or for types, and there is no cycle.

One exception: inside its method `make`, a stage calls what does its work, whatever the room.
"""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter

import pytest
from support import ROOT

ROOMS = (
    *("core", "config", "data", "models", "checkpoints", "metrics", "methods", "training"),
    *("stages", "lineage", "pipeline", "reports", "page", "plan", "trial", "cli"),
)
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "rtm").rglob("*.py"))
}
IN_ROOMS = [module for module in MODULES if module.count(".") and module != "rtm.__main__"]
WITHOUT_TORCH = ("config", "stages", "lineage", "pipeline", "reports", "page")
TORCH = {"torch", "torchvision", "lpips", "torch_fidelity"}
TOOLS = {"snakemake", "snakemake_interface_executor_plugins", "snakemake_executor_plugin_slurm", "dvc", "dvc_objects"}


def room(module: str) -> str:
    return module.split(".")[1]


def is_make(node: ast.AST, parent: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "make" and isinstance(parent, ast.ClassDef)


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def nodes(module: str, at_import: bool) -> Iterator[ast.AST]:
    """The syntax of a module, without the `make` of stages; `at_import`: only what runs when it is imported."""
    is_stage = module.startswith("rtm.stages.")
    waiting: list[ast.AST] = [ast.parse(MODULES[module].read_text("utf-8"))]
    while waiting:
        node = waiting.pop()
        is_later = isinstance(node, ast.FunctionDef) or is_for_types(node)
        if at_import and is_later:
            continue
        yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not (is_stage and is_make(child, node))]


@cache
def imported(module: str, at_import: bool = False) -> set[str]:
    """The full names that a module imports."""
    names: set[str] = set()
    for node in nodes(module, at_import):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: write the whole name of {node.module}"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def ours(names: set[str]) -> set[str]:
    """The modules of rtm/ among imported names: each name, or the module that it is in."""
    modules = {name if name in MODULES else name.rpartition(".")[0] for name in names}
    return modules & MODULES.keys()


def imports() -> dict[str, set[str]]:
    return {module: ours(imported(module)) - {module} for module in MODULES}


def packages(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize("module", IN_ROOMS)
def test_a_room_imports_lower_rooms_only(module: str) -> None:
    own = ROOMS.index(room(module))
    assert not {used for used in ours(imported(module)) - {"rtm"} if ROOMS.index(room(used)) > own}


def test_no_import_goes_round() -> None:
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def reached(module: str) -> set[str]:
    """All names that are imported when a module is, with the packages that it is in."""
    names: set[str] = set()
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        names |= imported(current, at_import=True)
        waiting += ours(imported(current, at_import=True))
        if "." in current:
            waiting.append(current.rpartition(".")[0])
    return names


@pytest.mark.parametrize("module", [module for module in IN_ROOMS if room(module) in WITHOUT_TORCH])
def test_rooms_that_plan_and_report_start_without_torch(module: str) -> None:
    assert not packages(reached(module)) & TORCH


def test_only_lineage_and_pipeline_know_snakemake_and_dvc() -> None:
    users = {module for module in MODULES if packages(imported(module)) & TOOLS}
    assert {room(module) for module in users} <= {"lineage", "pipeline"}


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


def test_the_documented_graph_is_the_real_one() -> None:
    used: dict[str, set[str]] = {name: set() for name in ROOMS}
    for module in IN_ROOMS:
        used[room(module)] |= {room(name) for name in imports()[module] - {"rtm"}} - {room(module)}
    graph = "\n".join(f"{name:<11} {' '.join(sorted(used[name], key=ROOMS.index))}" for name in ROOMS)
    assert graph in (ROOT / "docs/contributing.md").read_text("utf-8"), graph
