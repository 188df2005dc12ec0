"""Mistakes that every kind of entry in params/ refuses."""

from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter

from rtm.config.base import FileName, Folder, Once, Strict


class Entry(Strict):
    size: int
    parts: Annotated[tuple[int, ...], Once] = ()
    weight: float = 1.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": "3"}, "valid integer"),
        ({"size": True}, "valid integer"),
        ({"size": 3.0}, "valid integer"),
        ({"size": 3, "sise": 4}, "sise"),
        ({"size": 3, "weight": float("inf")}, "finite number"),
        ({"size": 3, "parts": (1, 2, 1, 3, 3)}, "1, 3 is listed more than once; keep one"),
        ({}, "Field required"),
    ],
)
def test_an_entry_takes_its_own_keys_and_kinds_alone(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Entry.model_validate(given)


def test_an_entry_stays_as_it_was_read() -> None:
    entry = Entry(size=3, parts=(2, 1), weight=2)
    assert entry.parts == (2, 1)
    with pytest.raises(ValueError, match="frozen"):
        entry.size = 4


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (
            Folder,
            ["", "demo", "try/cats_2", "a-b/c.d"],
            ["/tmp", "..", "a/../b", "a/", "a//b", ".dvc", "-rf", "a b", "$x"],
        ),
        (FileName, ["x.zip", "my file (1).zip", "\u732b.tar"], ["", ".", "..", ".x", "a/b", "../x", "a\nb", "x" * 201]),
    ],
)
def test_no_name_leads_out_of_its_folder(kind: Any, good: list[str], bad: list[str]) -> None:
    adapter: TypeAdapter[str] = TypeAdapter(kind)
    assert [adapter.validate_python(name) for name in good] == good
    for name in bad:
        with pytest.raises(ValueError, match=r"match pattern|at most 200"):
            adapter.validate_python(name)
