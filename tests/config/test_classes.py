"""Classes are found by name without running them; an unsuitable class gives an error of one sentence."""

from pathlib import Path

import pytest
from support import own_classes

from rtm.config.classes import built, imported, source_digest, source_of
from rtm.core.errors import UserError

MODULE = """
from typing import Literal

LARGEST = 7


class Shape:
    def __init__(self, dim, sides, colour="red"):
        self.dim, self.sides, self.colour = dim, sides, colour


class Typed:
    def __init__(self, dim, sides: int = 3, size: float = 1, name: str | None = None, kind: Literal["a", "b"] = "a"):
        pass


class Coloured(Shape):
    def __init__(self, sides, **others):
        super().__init__(sides=sides, **others)
"""


def test_a_class_is_built_from_what_is_given_and_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_classes.install(tmp_path, "own_shapes", MODULE, monkeypatch)
    shape = built("own_shapes:Shape", {"dim": 3}, {"sides": 4})
    assert (shape.dim, shape.sides, shape.colour) == (3, 4, "red")
    coloured = built("own_shapes:Coloured", {"dim": 3}, {"sides": 4, "colour": "blue"})  # takes any option
    assert (coloured.dim, coloured.sides, coloured.colour) == (3, 4, "blue")
    built("own_shapes:Typed", {"dim": 3}, {"sides": 4, "size": 2, "name": None, "kind": "b"})
    with pytest.raises(UserError, match="Coloured does not take dim; its options are sides"):
        built("own_shapes:Coloured", {"dim": 3}, {"sides": 4, "dim": 5})


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("own_shapes:Shape", {"sides": 4, "color": "blue"}, "does not take color; its options are sides, colour."),
        ("own_shapes:Typed", {"sides": "4"}, "own_shapes:Typed takes sides: int, not '4'; correct it in params/."),
        ("own_shapes:Typed", {"sides": True}, "takes sides: int, not True"),
        ("own_shapes:Typed", {"size": "large"}, "takes size: float, not 'large'"),
        ("own_shapes:Typed", {"name": 3}, r"takes name: str \| None, not 3"),
        ("own_shapes:Typed", {"kind": "c"}, r"takes kind: .*Literal\['a', 'b'\], not 'c'"),
        ("own_shapes:Shape", {"sides": 4, "dim": 5}, "does not take dim; its options are sides, colour."),
        ("own_shapes:Shape", {}, "needs sides; its options are sides, colour."),
        ("own_shapes:Sharp", {}, "The module own_shapes has no Sharp; correct 'own_shapes:Sharp' in params/."),
        ("own_sheeps:Shape", {}, "There is no module own_sheeps for 'own_sheeps:Shape'; .* PYTHONPATH."),
        ("own_shapes.flat:Shape", {}, "There is no module own_shapes.flat"),
        ("__main__:Shape", {}, "There is no module __main__"),
        ("sys:exit", {}, "There is no module sys"),
        ("own_shapes:LARGEST", {}, "own_shapes:LARGEST is neither a class nor a function; name one in params/."),
    ],
)
def test_a_class_that_does_not_fit_is_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    options: dict[str, object],
    message: str,
) -> None:
    own_classes.install(tmp_path, "own_shapes", MODULE, monkeypatch)
    with pytest.raises(UserError, match=message) as error:
        built(name, {"dim": 3}, options)
    assert "\n" not in str(error.value)


def test_a_class_must_take_what_every_class_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_classes.install(tmp_path, "own_shapes", MODULE, monkeypatch)
    with pytest.raises(UserError, match="own_shapes:Shape has no parameter in_dim; add it to the class's __init__"):
        built("own_shapes:Shape", {"dim": 3, "in_dim": 3}, {"sides": 4})


def test_source_is_found_without_running_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = own_classes.install(tmp_path, "own_bombs", "raise SystemExit('it ran')\n", monkeypatch)
    package = tmp_path / "own_package/inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("raise SystemExit('it ran')\n", "utf-8")
    (package / "shapes.py").write_text(MODULE, "utf-8")
    assert source_of("own_bombs:Bomb") == file
    assert source_of("own_package.inner.shapes:Shape") == package / "shapes.py"
    with pytest.raises(SystemExit):
        imported("own_bombs:Bomb")


def test_the_digest_covers_the_file_and_with_a_package_those_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = own_classes.install(tmp_path, "own_shapes", MODULE, monkeypatch)
    (tmp_path / "own_package").mkdir()
    for name in ("__init__", "shapes", "colours"):
        (tmp_path / f"own_package/{name}.py").write_text(MODULE, "utf-8")
    names = ("own_shapes:Shape", "own_package.shapes:Shape")
    before = [source_digest(name) for name in names]
    (tmp_path / "unrelated.py").write_text("", "utf-8")
    assert [source_digest(name) for name in names] == before
    file.write_text(MODULE + "\n", "utf-8")
    (tmp_path / "own_package/colours.py").write_text("", "utf-8")
    assert all(source_digest(name) != digest for name, digest in zip(names, before, strict=True))
