"""A file that cannot be read gives an error of one sentence."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtm.core.errors import UserError
from rtm.core.files import write_text
from rtm.core.readers import UNREADABLE, matches, read_json, read_numbers, reading


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"{", Any),
        (b"\xff", Any),
        (b"[1]", dict[str, int]),
        (b'{"a": "1"}', dict[str, int]),  # a text is not a number
        (b'{"a": 1.5}', dict[str, int]),
        (b'{"a": "x\\u001b[2J"}', dict[str, int]),
    ],
)
def test_json_of_another_kind_is_one_sentence(tmp_path: Path, content: bytes, kind: Any) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"x\.json is damaged or of another kind \(.*\); bring it back") as error:
        read_json(path, kind)
    assert str(error.value).isprintable()
    with pytest.raises(UserError, match=r"\); ask for it\.$"):
        read_json(path, kind, "ask for it")


def test_json_that_is_not_here_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"make it first with `snakemake --cores all -- '.*/a b\.json'`"):
        read_json(tmp_path / "a b.json")


def test_a_value_is_of_a_kind_or_not() -> None:
    assert matches({"a": 1}, dict[str, int])
    assert not matches({"a": "1"}, dict[str, int])
    assert not matches([], dict)


def test_numbers_are_read_and_an_empty_cell_is_left_out(tmp_path: Path) -> None:
    write_text(tmp_path / "x.csv", "step,loss,fid\n1,0.5,\n2,1e-3,7\n")
    assert read_numbers(tmp_path / "x.csv") == [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.001, "fid": 7}]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "loss\n1\n",
        "step,loss,loss\n1,2,3\n",
        "step,loss\n1\n",
        "step,loss\n1,nan\n",
        "step,loss\n,2\n",
        "step\nx\n",
    ],
)
def test_rows_that_are_no_numbers_are_one_sentence(tmp_path: Path, text: str) -> None:
    write_text(tmp_path / "x.csv", text)
    with pytest.raises(UserError, match=r"x\.csv is damaged or of another kind"):
        read_numbers(tmp_path / "x.csv")


@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_a_reader_raises_becomes_one_sentence(kind: type[Exception]) -> None:
    sentence = r"^a\\nb (cannot be read|is damaged.*) \(.*\); get it again\.$"
    with pytest.raises(UserError, match=sentence) as error, reading(Path("a\nb"), "get it again"):
        raise kind("x\n\x1b")
    assert str(error.value).isprintable()


def test_a_broken_header_of_an_array_is_one_sentence(tmp_path: Path) -> None:
    """numpy's parser for headers of Python 2 raises an unusual kind of error."""
    header = b"{'descr': ('|u1',\n"
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(UserError, match=r"x\.npy is damaged"), reading(tmp_path / "x.npy", "get it again"):
        np.load(tmp_path / "x.npy")
