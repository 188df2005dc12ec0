"""Which packages a stage's code really used, with their versions: part of the provenance of its results."""

import ast
import gc
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# The rule: a package counts if it is loaded and if rtm code that the stage reaches imports it. The stage reaches its
# entry modules, the modules that they import, and so on. An import inside a function counts only if the function ran,
# that is, if its module is loaded. A fork server loads modules before any stage runs. These modules (PRELOADED) are no
# proof that a function ran.
PRELOADED: set[str] = set()
DISTRIBUTIONS = {
    **{name: (name,) for name in ("jinja2", "lpips", "matplotlib", "numpy", "pandas", "prdc", "safetensors", "scipy")},
    **{name: (name,) for name in ("torch", "torchvision")},
    "PIL": ("pillow",),
    "sklearn": ("scikit-learn",),
    "torch_fidelity": ("torch-fidelity",),
}


def preload() -> None:
    """Call this before a server forks. Modules that are loaded now do not count as used by a stage, and their imports
    are read once for all stages."""
    PRELOADED.update(sys.modules)
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "rtm" and module.__file__:
            _imports(module.__file__)
    for name in {each for names in DISTRIBUTIONS.values() for each in names}:
        _version(name)
    gc.freeze()  # a garbage collection in a fork would copy all memory


def loaded_versions(*entries: str) -> dict[str, str]:
    """Versions by distribution of the packages that the stage with these entries ("module" or "module:name") used."""
    packages = {module.split(".")[0] for module in _reached(entries)}
    distributions = [name for package in packages for name in DISTRIBUTIONS.get(package, ())]
    return dict(sorted((name, found) for name in distributions if (found := _version(name))))


@cache
def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _reached(entries: Iterable[str]) -> set[str]:
    """The loaded modules of rtm that the entries reach, and the packages' modules that those import."""
    waiting, reached = [entry.split(":")[0] for entry in entries], set[str]()
    while waiting:
        module = waiting.pop()
        if module not in reached and module in sys.modules:
            reached.add(module)
            if module.split(".")[0] == "rtm" and (file := sys.modules[module].__file__):
                waiting += [name for name, called in _imports(file) if not (called and name in PRELOADED)]
                waiting += [parent for parent in [module.rpartition(".")[0]] if parent != "rtm"]  # it imports lazily
    return reached


@cache
def _imports(file: str) -> list[tuple[str, bool]]:
    """The modules that a file imports, and whether the import is inside a function."""
    return list(_imported(ast.parse(Path(file).read_text()).body, False))


def _imported(nodes: Iterable[ast.AST], called: bool) -> Iterator[tuple[str, bool]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, called) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((name, called) for alias in node.names for name in (node.module, f"{node.module}.{alias.name}"))
        elif not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            inside = called or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imported(ast.iter_child_nodes(node), inside)
