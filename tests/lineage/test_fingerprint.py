"""Fingerprints of code by content: changes that keep a result fresh, and changes that do not."""

import ast
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from support.changed_code import Variants, written
from support.small_jobs import CODE, ENTRY, forget, root

from rtm.config.loading import PARAMS
from rtm.lineage import content
from rtm.lineage.fingerprint import LEFT_OUT, PACKAGE, Code, Key, present
from rtm.lineage.job import Job, Stage
from rtm.pipeline.graph import every_job

Entries = tuple[str, ...]
Sources = dict[str, str]


@pytest.fixture(scope="module")
def code() -> Code:
    return Code.of(PACKAGE)


@pytest.fixture(scope="module")
def entries() -> list[Entries]:
    """The distinct entries of all jobs."""
    return sorted({job.entries for job in every_job(PACKAGE.parent / PARAMS).values()})


@pytest.fixture(scope="module")
def roots(code: Code, entries: list[Entries]) -> list[str]:
    return [code.root(each) for each in entries]


@pytest.fixture(scope="module")
def reached(code: Code, entries: list[Entries]) -> list[set[Key]]:
    return [code.definitions(each) for each in entries]


@pytest.fixture(scope="module")
def variants(code: Code, entries: list[Entries]) -> Variants:
    return Variants(code, entries)


def counted(code: Code) -> list[str]:
    return [name for name in sorted(code.sources) if not code._is_left_out(name)]


# the real package


def test_graphs_follow_from_their_content(code: Code, entries: list[Entries], roots: list[str]) -> None:
    graphs = [code.graph(each) for each in entries]
    assert [graph.root for graph in graphs] == roots and all(graph.follows() for graph in graphs)
    assert len(set(roots)) == len(entries)
    assert code.root(entries[0][::-1]) == roots[0]
    (graph, *_) = graphs
    assert type(graph).of(graph.text()) == graph
    assert not type(graph).of(graph.text().replace('"own": "', '"own": "0', 1)).follows()


class Moved(ast.NodeTransformer):
    """Rewrites imports for modules with new names."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_ImportFrom(self, node: ast.ImportFrom) -> list[ast.stmt]:
        assert node.level == 0
        return [self.moved(str(node.module), alias) for alias in node.names]

    def moved(self, module: str, alias: ast.alias) -> ast.stmt:
        if target := self.names.get(f"{module}.{alias.name}"):
            package, _, last = target.rpartition(".")
            return ast.ImportFrom(package, [ast.alias(last, alias.asname or alias.name)], 0)
        return ast.ImportFrom(self.names.get(module, module), [alias], 0)

    def visit_Import(self, node: ast.Import) -> ast.Import:
        assert not any(alias.name in self.names for alias in node.names)
        return node


@pytest.mark.parametrize("seed", range(2))
def test_modules_and_folders_move(code: Code, entries: list[Entries], roots: list[str], seed: int) -> None:
    chance = random.Random(seed)
    packages = ["rtm", "rtm.core", "rtm.core.deep", "other"]
    names = {name: f"{chance.choice(packages)}.m{chance.randrange(16**8):x}" for name in code.sources}
    sources = {names[name]: ast.unparse(Moved(names).visit(ast.parse(text))) for name, text in code.sources.items()}
    left_out = [names[name] for name in code.sources if code._is_left_out(name)]
    files = {f"else/where/{name}": digest for name, digest in code.files.items()}
    moved = Code(sources, files, left_out)

    def renamed(entry: str) -> str:
        module, colon, name = entry.removeprefix("!").partition(":")
        moved = f"else/where/{entry}" if "/" in entry else f"{names[module]}{colon}{name}"
        return f"!{moved}" if entry.startswith("!") else moved

    assert [moved.root(tuple(map(renamed, each))) for each in entries] == roots


class Undressed(ast.NodeTransformer):
    """Removes docstrings and type hints of functions."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.returns = None
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        is_text = isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
        node.body = (node.body[1:] if is_text else node.body) or [ast.Expr(ast.Constant(...))]
        return node


def test_comments_docstrings_and_hints_do_not_count(code: Code, entries: list[Entries], roots: list[str]) -> None:
    bare = {name: ast.unparse(Undressed().visit(ast.parse(text))) for name, text in code.sources.items()}
    assert [Code(bare, code.files).root(each) for each in entries] == roots


def changeable(statement: ast.AST) -> list[ast.AST]:
    """Constants, operators and calls, without type hints and docstrings."""
    found: list[ast.AST] = []
    for key, value in ast.iter_fields(statement):
        for child in value if isinstance(value, list) else [value]:
            is_text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if isinstance(child, ast.AST) and key not in ("annotation", "returns") and not is_text:
                numeric = isinstance(child, ast.Constant) and isinstance(child.value, int | float)
                found += [child] if numeric or isinstance(child, ast.BinOp | ast.Call) else []
                found += changeable(child)
    return found


def change(node: ast.AST) -> None:
    if isinstance(node, ast.Constant):
        node.value = 12345.678
    elif isinstance(node, ast.BinOp):
        node.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
    elif isinstance(node, ast.Call):
        node.args.append(ast.Constant(12345.678))


def defined(statement: ast.stmt) -> set[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    return names or {str(getattr(statement, "name", ""))}


@pytest.mark.slow(seconds=8)
def test_a_change_counts_for_those_that_reach_it(
    code: Code, variants: Variants, entries: list[Entries], roots: list[str], reached: list[set[Key]]
) -> None:
    chance = random.Random(0)
    places = [
        (module, number, place)
        for module in counted(code)
        for number, statement in enumerate(ast.parse(code.sources[module]).body)
        if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Assign)
        for place in range(len(changeable(statement)))
    ]
    counts = set()
    for count, (module, number, place) in enumerate(chance.sample(places, 50)):
        tree = ast.parse(code.sources[module])
        statement = tree.body[number]
        change(changeable(statement)[place])
        keys = {(module, name) for name in defined(statement)}
        expected = [bool(keys & each) for each in reached]
        now = variants.of(module, written(code.sources[module], statement))
        changed = [now.root(each) != root for each, root in zip(entries, roots, strict=True)]
        if count % 10 == 0:  # shared caches of the variants do not change the result
            alone = Code(now.sources, code.files)
            assert [alone.root(each) for each in entries] == [now.root(each) for each in entries]
        assert changed == expected, (keys, ast.unparse(statement))
        counts.add(sum(expected))
    assert len(counts) > 5  # some changes reach no entry, some reach many


class Renamed(ast.NodeTransformer):
    """Renames a function of a module, in the module and in its users."""

    def __init__(self, module: str, name: str, own: bool) -> None:
        self.module, self.name, self.own = module, name, own
        self.aliases: set[str] = set()

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        for alias in node.names:
            if node.module == self.module and alias.name == self.name:
                alias.name, alias.asname = "renamed_here", alias.asname or self.name
            if f"{node.module}.{alias.name}" == self.module:
                self.aliases.add(alias.asname or alias.name)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        if self.own and node.name == self.name:
            node.name = "renamed_here"
        return node

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if self.own and node.id == self.name:
            node.id = "renamed_here"
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id in self.aliases and node.attr == self.name:
            node.attr = "renamed_here"
        return node


def is_only(tree: ast.Module, name: str) -> bool:
    """Whether a name in the module stands for one function and nothing else."""
    parts = list(ast.walk(tree))
    others = [part for part in parts if isinstance(part, ast.arg) and part.arg == name]
    stored = [
        part for part in parts if isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Store)
    ]
    defined = [part for part in parts if isinstance(part, ast.FunctionDef | ast.ClassDef) and part.name == name]
    return not others and not stored and len(defined) == 1


def test_a_function_is_renamed(code: Code, entries: list[Entries], roots: list[str], reached: list[set[Key]]) -> None:
    chance = random.Random(0)
    trees = {module: ast.parse(code.sources[module]) for module in counted(code)}
    functions = [
        (module, node.name)
        for module, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("__") and is_only(tree, node.name)
        if any((module, node.name) in each for each in reached)
    ]
    for module, name in chance.sample(functions, 6):
        sources = {
            each: ast.unparse(Renamed(module, name, each == module).visit(ast.parse(text))) if name in text else text
            for each, text in code.sources.items()
        }
        now = Code(sources, code.files)
        wanted = {f"{module}:{name}": f"{module}:renamed_here"}
        assert [now.root([wanted.get(entry, entry) for entry in each]) for each in entries] == roots, (module, name)


@pytest.mark.slow(seconds=5)
def test_a_local_variable_is_renamed(code: Code, variants: Variants, entries: list[Entries], roots: list[str]) -> None:
    chance, renamed = random.Random(0), 0
    for module in chance.sample(counted(code), 30):
        tree = ast.parse(code.sources[module])
        for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
            renamed += rename_locals(function)
        if renamed:
            now = variants.of(module, ast.unparse(tree))
            assert [now.root(each) for each in entries] == roots, module
    assert renamed > 30


def rename_locals(function: ast.FunctionDef) -> int:
    """Rename variables that only this function assigns and reads."""
    parts = list(ast.walk(function))
    if any(isinstance(part, ast.Global | ast.Nonlocal | ast.Import | ast.ImportFrom | ast.ClassDef) for part in parts):
        return 0
    if any(isinstance(part, ast.Name) and part.id in content.SEES_LOCALS for part in parts):
        return 0
    kept = {part.arg for part in parts if isinstance(part, ast.arg)}
    kept |= {part.name for part in parts if isinstance(part, ast.FunctionDef)}
    stored = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)} - kept
    for part in parts:
        if isinstance(part, ast.Name) and part.id in stored:
            part.id = f"{part.id}_by_another_name"
    return len(stored)


# small packages


def test_definitions_of_one_name_that_swap_modules() -> None:
    user = "from rtm.b import g\nfrom rtm.c import g as h\ndef f(x):\n    return g(x) - h(x)\n"
    one, other = "def g(x):\n    return x\n", "def g(x):\n    return 2 * x\n"
    assert root({"a": user, "b": one, "c": other}) != root({"a": user, "b": other, "c": one})
    both = "from rtm import b, c\ndef f(x):\n    return b.g(x) - c.g(x)\n"
    assert root({"a": both, "b": one, "c": other}) == root({"a": user, "b": one, "c": other})
    assert root({"a": both, "b": other, "c": one}) != root({"a": both, "b": one, "c": other})


def test_a_definition_moves_to_another_module() -> None:
    apart = {"a": "from rtm.b import g\ndef f():\n    return g()\n", "b": "X = 3\ndef g():\n    return X\n"}
    assert root(apart) == root({"a": "X = 3\ndef g():\n    return X\ndef f():\n    return g()\n"})
    inside = "def f():\n    from rtm.b import g\n    return g()\n"
    assert root(apart) == root({**apart, "a": inside})
    assert root(apart) == root({**apart, "a": "import rtm.b\ndef f():\n    return rtm.b.g()\n"})
    assert root(apart) == root(
        {**apart, "a": "from rtm import c\ndef f():\n    return c.g()\n", "c": "from rtm.b import g"}
    )


def test_a_module_as_a_value_counts_whole() -> None:
    user = "from rtm import b\ndef f(name):\n    return getattr(b, name)\n"
    assert root({"a": user, "b": "X = 1\nY = 2\n"}) != root({"a": user, "b": "X = 1\nY = 3\n"})
    assert root({"a": user, "b": "X = 1\nY = 2\n"}) != root({"a": user, "b": "X = 1\nZ = 2\n"})
    one = "from rtm import b\ndef f():\n    return b.X\n"
    assert root({"a": one, "b": "X = 1\nY = 2\n"}) == root({"a": one, "b": "X = 1\nY = 3\n"})


def test_what_runs_on_import_counts_for_who_uses_a_module() -> None:
    user = "from rtm.b import X\ndef f():\n    return X\n"
    assert root({"a": user, "b": "X = []\n"}) != root({"a": user, "b": "X = []\nX.append(1)\n"})
    registry = "KNOWN = []\ndef register(f):\n    KNOWN.append(f)\nX = 1\n@register\ndef g():\n    return {}\n"
    assert root({"a": user, "b": registry.format(1)}) != root({"a": user, "b": registry.format(2)})


def test_names_that_lead_through_packages() -> None:
    user = "from rtm.p import g\ndef f():\n    return g()\n"
    package = {"p": "from .q import g\n", "p.q": "from ..r import X\ndef g():\n    return X\n", "r": "X = 1\n"}
    assert root({"a": user, **package}) == root({"a": "def g():\n    return X\nX = 1\ndef f():\n    return g()\n"})
    lazy = {"p": "def __getattr__(name):\n    from rtm import q\n    return getattr(q, name)\n"}
    assert root({"a": user, **lazy, "q": "g = 1"}) != root({"a": user, **lazy, "q": "g = 2"})


def test_an_entry_that_is_not_there() -> None:
    with pytest.raises(KeyError, match=r"rtm\.a defines no g"):
        root({"a": "def f(): pass"}, "rtm.a:g")


def test_what_is_left_out_is_there(code: Code) -> None:
    assert set(LEFT_OUT) <= code.sources.keys()


# code that parameters select


def trainings() -> dict[str, Job]:
    jobs = every_job(PACKAGE.parent / PARAMS).values()
    return {job.id: job for job in jobs if job.stage is Stage.TRAIN}


def stale(code: Code, changed: Code) -> set[str]:
    return {name for name, job in trainings().items() if code.root(job.entries) != changed.root(job.entries)}


def replaced(code: Code, module: str, old: str, new: str) -> Code:
    assert old in code.sources[module]
    return Code({**code.sources, module: code.sources[module].replace(old, new)}, code.files)


def test_a_change_of_attention_leaves_mixers_fresh(code: Code) -> None:
    changed = replaced(code, "rtm.models.mappers", "base: float = 1e4", "base: float = 1e5")
    attention = {name for name, job in trainings().items() if job.params["mapper"].get("block") == "attention"}
    assert attention and stale(code, changed) == attention


def test_a_change_of_a_branch_leaves_other_decoders_fresh(code: Code) -> None:
    head = "class ConvNeXtBranch(nn.Module):\n"
    changed = replaced(code, "rtm.models.decoders", head, f"{head}    X = 1\n")
    decoders = {name: job.params["decoder"] for name, job in trainings().items()}
    assert stale(code, changed) == {name for name, each in decoders.items() if each and each["block"] == "convnext"}


def test_a_new_mapper_leaves_everything_fresh(code: Code) -> None:
    module = "rtm.models.mappers"
    new = code.sources[module] + "\n\nclass ResidualMLP(nn.Module):\n    pass\n"
    line = 'MAPPERS = {"residual": "rtm.models.mappers:ResidualMLP", '
    registry = code.sources["rtm.models.registry"].replace("MAPPERS = {", line)
    changed = Code({**code.sources, module: new, "rtm.models.registry": registry}, code.files)
    assert "ResidualMLP" in registry and not stale(code, changed)


# a package on disk


def meant(package: Path, name: str, edit: Callable[[str], str]) -> bool:
    """Whether an edit of a module changes the fingerprint of the entry."""
    before = present().root((ENTRY,))
    path = package / f"{name}.py"
    path.write_text(edit(path.read_text()))
    forget()
    return present().root((ENTRY,)) != before


def replace(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new)


@pytest.mark.parametrize(
    ("name", "edit", "counts"),
    [
        ("second", replace("LIMIT = 3", "# a comment\nLIMIT  =  (3)"), False),
        ("second", replace("def used():", 'def used() -> "int":\n    """A docstring."""'), False),
        ("second", replace("return 1", "return 5"), False),  # nothing uses it
        ("second", lambda text: text + "\n\ndef another():\n    return used()\n", False),
        ("second", replace("LIMIT = 3", "LIMIT = 4"), True),
        ("second", replace("return LIMIT", "return -LIMIT"), True),
        ("third", replace("return 2", "return 2.0"), True),
        ("third", lambda text: text + "\n\nall.cache = {}\n", True),  # runs on import
        ("first", replace("from rtm import third", "from rtm import errors, third"), False),
        ("first", replace("def main():", "def main():\n    from rtm.second import unused\n    unused()"), True),
        ("errors", replace("return 1", "return 2"), False),
    ],
)
def test_what_changes_the_code(package: Path, name: str, edit: Callable[[str], str], counts: bool) -> None:
    assert meant(package, name, edit) is counts


def test_a_decorator_of_ours_makes_a_definition_count(package: Path) -> None:
    registry = (
        "KNOWN = {}\n\n\ndef register(f):\n    KNOWN[f.__name__] = f\n\n\n@register\ndef plugin():\n    return 1\n"
    )
    (package / "second.py").write_text(registry + CODE["second"])
    forget()
    assert meant(package, "second", replace("def plugin():\n    return 1", "def plugin():\n    return 2"))


def test_folders_count_by_their_bytes(package: Path) -> None:
    (package / "templates").mkdir()
    (package / "templates/a.tex").write_text("a")
    forget()
    before = present().root(("rtm/templates",))
    assert present().reached(("rtm/templates",)) == ["rtm/templates/a.tex"]
    (package / "templates/a.tex").write_text("b")
    forget()
    assert present().root(("rtm/templates",)) != before
