"""The hash of the code behind a result: changes that keep it, and changes that do not."""

import ast
from pathlib import Path

import pytest
from support import PARAMS
from support.small_jobs import edit

from rtm.lineage import code as lineage_code
from rtm.lineage.code import LEFT_OUT, Code, module_name, present
from rtm.stages.base import Job
from rtm.stages.graph import every_job

USER = "from rtm.b import g\n\n\ndef f():\n    return g()\n"
PACKAGE = lineage_code.PACKAGE


def root(entry: str = "rtm.a", **modules: str) -> str:
    """The hash of an entry of a package with these modules; p__q is rtm.p.q."""
    return Code({f"rtm.{name.replace('__', '.')}": text for name, text in modules.items()}).root([entry])


@pytest.fixture(scope="module")
def code() -> Code:
    return Code.of(PACKAGE)


@pytest.fixture(scope="module")
def graph() -> dict[str, Job]:
    return every_job(PARAMS)


def stale(graph: dict[str, Job], before: Code, after: Code) -> set[str]:
    """The stages whose results would be stale."""
    return {job.stage.name for job in graph.values() if before.root(job.code) != after.root(job.code)}


# the real package


def test_layout_comments_and_docstrings_change_no_hash(code: Code, graph: dict[str, Job]) -> None:
    undressed = {name: ast.unparse(ast.parse(text)) + "\n# a comment\n" for name, text in code.modules.items()}
    described = {name: f'"""A docstring."""\n{text}' for name, text in undressed.items()}
    assert stale(graph, code, Code(described, code.files)) == set()


def test_what_is_added_in_a_file_of_its_own_makes_nothing_stale(code: Code, graph: dict[str, Job]) -> None:
    """A mapper, a method, an extractor or a stage; what finds them by name is left out."""
    added = dict.fromkeys(("rtm.models.mine", "rtm.methods.mine", "rtm.metrics.mine", "rtm.stages.mine"), "X = 1\n")
    registries = ("rtm.models.registry", "rtm.methods.registry", "rtm.metrics.extractors", "rtm.stages")
    changed = {name: f"{code.modules[name]}\nMINE = 1\n" for name in registries}
    assert stale(graph, code, Code({**code.modules, **added, **changed}, code.files)) == set()


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("rtm.models.mappers", {"train", "evaluate", "gallery", "latency"}),
        ("rtm.training.loop", {"train"}),
        ("rtm.metrics.prdc", {"reference", "evaluate", "train"}),
        ("rtm.reports.summary", {"summary", "table", "figure", "report"}),
        ("rtm.core.errors", set()),
        ("rtm.pipeline.snakemake", set()),
    ],
)
def test_a_change_counts_for_those_that_import_it(
    code: Code, graph: dict[str, Job], name: str, stages: set[str]
) -> None:
    changed = {**code.modules, name: f"{code.modules[name]}\nX = 1\n"}
    assert stale(graph, code, Code(changed, code.files)) == stages


def test_the_order_of_the_entries_is_nothing(code: Code, graph: dict[str, Job]) -> None:
    for entries in {job.code for job in graph.values()}:
        assert code.root(entries) == code.root(entries[::-1])


def test_what_is_left_out_is_there(code: Code) -> None:
    assert set(LEFT_OUT) <= code.modules.keys()


# small packages


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def g(): return 1", "def g():\n    # a comment\n    return (1)"),
        ("def g(): return 1", 'def g():\n    """A docstring."""\n    return 1'),
        ("class g: pass", 'class g:\n    """A docstring."""\n    pass'),
        ("X = 'a'", 'X = "a"'),
    ],
)
def test_the_same(before: str, after: str) -> None:
    assert root(a=USER, b=before) == root(a=USER, b=after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def g(): return 1", "def g(): return 1.0"),
        ("def g(): return 1", "def g(): return True"),
        ("def g(): return 'a'", "def g(): return b'a'"),
        ("def g(x): return x", "def g(x=None): return x"),
        ("def g(x): return x", "def g(*, x): return x"),
        ("def g(x): return -x", "def g(x): return +x"),
        ("X = []", "X = []\nX.append(1)"),
        ("import c", "from c import *"),
        ("@c\ndef g(): pass", "def g(): pass"),
        ("def g(): yield 1", "async def g(): yield 1"),
        ("X = {1: 2}", "X = {1, 2}"),
    ],
)
def test_not_the_same(before: str, after: str) -> None:
    assert root(a=USER, b=before) != root(a=USER, b=after)


@pytest.mark.parametrize(
    "user",
    [
        "from rtm.b import g",
        "import rtm.b",
        "import rtm.b as b",
        "from rtm import b",
        "def f():\n    from rtm.b import g",
        "class C:\n    def f(self):\n        import rtm.b",
        "from rtm.c import g",  # through another module
        "if TYPE_CHECKING:\n    pass\nelse:\n    from rtm.b import g",
        "try:\n    from rtm.b import g\nexcept ImportError:\n    pass",
    ],
)
def test_what_is_imported_counts(user: str) -> None:
    through = "from rtm.b import g"
    assert root(a=user, b="X = 1", c=through) != root(a=user, b="X = 2", c=through)


def test_imports_for_types_and_from_elsewhere_do_not_count() -> None:
    user = "import os\nfrom rtm import version\nif TYPE_CHECKING:\n    from rtm.b import g\n"
    assert root(a=user, b="X = 1") == root(a=user, b="X = 2")


def test_a_name_of_a_package_leads_through_it() -> None:
    user = "from rtm.p import g"
    passed = "from rtm.p.q import g"
    assert root(a=user, p=passed, p__q="X = 1") != root(a=user, p=passed, p__q="X = 2")
    assert root(a="from rtm.p.q import g", p="X = 1", p__q="") == root(a="from rtm.p.q import g", p="X = 2", p__q="")


def test_modules_that_import_each_other() -> None:
    other = "from rtm.a import f\nX = {}\n"
    assert root(a=USER, b=other.format(1)) != root(a=USER, b=other.format(2))


def test_the_method_of_a_stage_counts_alone() -> None:
    text = (
        "from rtm.b import g\nclass Mine:\n    def make(self):\n        x = {}\n    def cost(self):\n        x = {}\n"
    )
    entry = "rtm.a:Mine.make"
    assert root(entry, a=text.format(1, 1), b="1") == root(entry, a=text.format(1, 2), b="2")
    assert root(entry, a=text.format(1, 1)) != root(entry, a=text.format(2, 1))
    assert root("rtm.a:Mine", a=text.format(1, 1)) != root("rtm.a:Mine", a=text.format(1, 2))


def test_an_entry_that_is_not_there() -> None:
    with pytest.raises(KeyError, match=r"there is no module rtm\.b"):
        root("rtm.b:f", a="def f(): pass")


@pytest.mark.parametrize(
    ("path", "name"), [("rtm/models/layers.py", "rtm.models.layers"), ("rtm/stages/__init__.py", "rtm.stages")]
)
def test_the_name_of_a_module(path: str, name: str) -> None:
    assert module_name(Path(path)) == name


# a package on disk


@pytest.mark.parametrize(
    ("name", "old", "new", "counts"),
    [
        ("second", "LIMIT = 3", "# a comment\nLIMIT  =  (3)", False),
        ("second", "LIMIT = 3", "LIMIT = 4", True),
        ("second", "return LIMIT", "return -LIMIT", True),
        ("third", "return 2", "return 2.0", True),
        ("first", "def main():", "def main():\n    from rtm import cli\n", True),
        ("cli", "return 1", "return 2", False),
    ],
)
def test_what_changes_the_code(package: Path, name: str, old: str, new: str, counts: bool) -> None:
    before = present().root(["rtm.first"])
    edit(package, name, old, new)
    assert (present().root(["rtm.first"]) != before) is counts


def test_folders_count_by_their_bytes(package: Path) -> None:
    (package / "templates").mkdir()
    (package / "templates/a.tex").write_text("a", "utf-8")
    before = Code.of(package)
    assert list(before.reached(["rtm/templates"])) == ["rtm/templates/a.tex"]
    (package / "templates/a.tex").write_text("b", "utf-8")
    assert Code.of(package).root(["rtm/templates"]) != before.root(["rtm/templates"])


def test_a_process_keeps_the_code_that_it_began_with(package: Path) -> None:
    before = present().root(["rtm.first"])
    (package / "third.py").write_text("def all(): return 9\n", "utf-8")
    assert present().root(["rtm.first"]) == before
