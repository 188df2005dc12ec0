"""YAML gives names, texts and numbers; a file that expands to too many values is refused."""

from pathlib import Path
from typing import Any

import pytest

from rtm.config import load, reading
from rtm.config.reading import parsed, read_sections
from rtm.core.errors import UserError


def test_a_file_is_parsed_once_and_read_as_it_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []

    def counted(text: str) -> Any:
        texts.append(text)
        return parsed(text)

    monkeypatch.setattr(reading, "parsed", counted)
    path = tmp_path / "once.yaml"
    path.write_text("once: {one: &same [1], other: *same}")
    first, second = (read_sections([path])[0] for _ in range(2))
    assert first == second == {"once": {"one": [1], "other": [1]}} and len(texts) == 1
    first["once"]["one"].append(2)  # this list is not shared
    assert first["once"]["other"] == [1, 2] and read_sections([path])[0] == second
    path.write_text("once: 2")
    assert read_sections([path])[0] == {"once": 2} and len(texts) == 2


@pytest.mark.parametrize("text", ["4e-3", "4E-3", "+4e-3", "0.4e-2", "4.e-3", ".4e-2", "40e-4"])
def test_a_power_of_ten_is_a_number(params: Path, text: str) -> None:
    """YAML 1.1 reads most of these as texts."""
    recipes = params / "recipes.yaml"
    recipes.write_text(recipes.read_text().replace("lr: 2.0e-4", f"lr: {text}", 1))
    assert load("paper", params).experiments["cifar10_imle_mlp"].recipe.training.lr == pytest.approx(0.004)


@pytest.mark.parametrize("text", ["4e", "e3", "1e1234", "12e5a", "_1e3"])
def test_what_only_looks_like_a_power_of_ten_is_a_text(text: str) -> None:
    assert parsed(text) == text


@pytest.mark.parametrize("line", ["[{}]", "{{b: [{}]}}", "{{<<: [{}]}}"])
def test_aliases_that_stand_for_very_much_are_refused_at_once(params: Path, line: str) -> None:
    lines = ["a0: &a0 {x: 1}"]
    for level in range(1, 40):
        lines.append(f"a{level}: &a{level} " + line.format(", ".join([f"*a{level - 1}"] * 9)))
    (params / "bomb.yaml").write_text("\n".join(lines))
    with pytest.raises(UserError, match=r"bomb\.yaml is not valid YAML: its aliases stand for more than 200,000"):
        load("paper", params)


def test_a_section_stands_in_one_file(tmp_path: Path) -> None:
    paths = [tmp_path / "one.yaml", tmp_path / "other.yaml", tmp_path / "empty.yaml"]
    for path, text in zip(paths, ["a: 1\nb: 2\n", "c: 3\n", "# nothing\n"], strict=True):
        path.write_text(text)
    assert read_sections(paths) == ({"a": 1, "b": 2, "c": 3}, {"a": paths[0], "b": paths[0], "c": paths[1]})
    paths[2].write_text("a: 4\n")
    with pytest.raises(UserError, match=r"empty\.yaml: section 'a' is also in .*one\.yaml; keep one of them"):
        read_sections(paths)
