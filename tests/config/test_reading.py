"""YAML gives names, texts and numbers, as YAML 1.2 reads them."""

from pathlib import Path
from typing import Any

import pytest

from rtm.config import load
from rtm.config.reading import parsed, read_sections
from rtm.core.errors import UserError


@pytest.mark.parametrize("text", ["4e-3", "4E-3", "+4e-3", "0.4e-2", "4.e-3", ".4e-2", "40e-4"])
def test_a_power_of_ten_is_a_number(params: Path, text: str) -> None:
    """YAML 1.1 reads most of these as texts."""
    recipes = params / "recipes.yaml"
    recipes.write_text(recipes.read_text("utf-8").replace("lr: 2.0e-4", f"lr: {text}", 1), "utf-8")
    assert load("paper", params).experiments["cifar10_imle_mlp"].recipe.training.lr == pytest.approx(0.004)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("010", 10),  # YAML 1.1 reads eight, ...
        ("0o10", 8),
        ("0x1F", 31),
        ("-3", -3),
        ("3.", 3.0),
        ("-.inf", float("-inf")),
        ("true", True),
        ("~", None),
        ("", None),
    ],
)
def test_numbers_are_those_that_a_reader_expects(text: str, value: object) -> None:
    assert parsed(text) == value
    assert type(parsed(text)) is type(value)


@pytest.mark.parametrize(
    "text",
    ["1:30", "yes", "no", "on", "off", "1_000", "2024-01-01", "4e", "e3", "1e1234", "12e5a", "_1e3"],  # ... and 90
)
def test_what_only_looks_like_a_number_or_a_switch_is_a_text(text: str) -> None:
    assert parsed(text) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "a is written twice .*line 1"),
        ("{true: 1}", "True is no name; put it in quotes"),
        ("{[1]: 2}", r"is no name|unhashable"),
        ("!!python/object:os.system id", "could not determine a constructor"),
        ("[1", "expected ',' or ']'"),
    ],
)
def test_a_faulty_text_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parsed(text)


def test_merged_keys_may_be_written_again() -> None:
    document: Any = parsed("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\n")
    assert document["b"] == {"x": 1, "y": 3}


def test_a_section_stands_in_one_file(tmp_path: Path) -> None:
    paths = [tmp_path / "one.yaml", tmp_path / "other.yaml", tmp_path / "empty.yaml"]
    for path, text in zip(paths, ["a: 1\nb: 2\n", "c: 3\n", "# nothing\n"], strict=True):
        path.write_text(text, "utf-8")
    assert read_sections(paths) == ({"a": 1, "b": 2, "c": 3}, {"a": paths[0], "b": paths[0], "c": paths[1]})
    paths[2].write_text("a: 4\n", "utf-8")
    with pytest.raises(UserError, match=r"empty\.yaml: section 'a' is also in .*one\.yaml; keep one of them"):
        read_sections(paths)
    paths[2].write_text("- a\n", "utf-8")
    with pytest.raises(UserError, match=r"empty\.yaml: write names with their values, `name: value` \(got \['a'\]\)"):
        read_sections(paths)
    paths[2].write_bytes(b"a: \xff\n")
    with pytest.raises(UserError, match=r"empty\.yaml is not UTF-8 text \(byte 3\)"):
        read_sections(paths)
