"""A pin changes exactly one value of params/, or nothing if it is refused."""

import shutil
from pathlib import Path

import pytest
from support import PARAMS

from rtm.config import load
from rtm.core.errors import UserError
from rtm.data.pins import pin

SHA256 = "ab" * 32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PARAMS, tmp_path / "params"))


@pytest.mark.parametrize("name", ["digits", "cifar10", "celebahq", "obama", "panda", "cat", "shells"])
def test_every_dataset_can_be_pinned(folder: Path, name: str) -> None:
    before = load("paper", folder).params.datasets
    text = (folder / "datasets.yaml").read_text("utf-8")
    sums = {"images.npy": SHA256} | ({"test_images.npy": "cd" * 32} if before[name].test else {})
    assert pin(folder, name, sums) == folder / "datasets.yaml"
    after = load("paper", folder).params.datasets
    assert after[name].sha256 == SHA256
    assert {each for each in before if before[each] != after[each]} == {name}
    old, new = (set(each.splitlines()) for each in (text, (folder / "datasets.yaml").read_text("utf-8")))
    assert len(new - old) == len(sums)
    assert all("sha256: " in line for line in old ^ new)
    pinned = (folder / "datasets.yaml").read_text("utf-8")
    pin(folder, name, sums)
    assert (folder / "datasets.yaml").read_text("utf-8") == pinned


def test_a_mapping_in_braces_and_a_comment_stay(folder: Path) -> None:
    file = folder / "datasets.yaml"
    file.write_text(
        file.read_text("utf-8")
        + "  toy: {title: Toy, kind: images, resolution: 8, count: 3, licence: free, citation: none}  # mine\n"
        + "  other:\n    title: Toy\n    kind: images\n    resolution: 8\n    count: 3\n    sha256: null  # soon\n"
        + "    # as it is\n    licence: free\n    citation: none\n",
        "utf-8",
    )
    pin(folder, "toy", {"images.npy": SHA256})
    pin(folder, "other", {"images.npy": SHA256})
    text = file.read_text("utf-8")
    assert f"count: 3, sha256: {SHA256}, licence: free, citation: none}} # mine\n" in text
    assert f"    sha256: {SHA256} # soon\n    # as it is\n" in text


def test_a_pin_that_others_would_inherit_is_refused(folder: Path) -> None:
    file = folder / "datasets.yaml"
    file.write_text(
        file.read_text("utf-8").replace("  shells:\n", "  shells: &shells\n") + "  more: {<<: *shells, count: 5}\n",
        "utf-8",
    )
    before = file.read_text("utf-8")
    with pytest.raises(UserError, match=r"other datasets would take over the sha256 of shells by `<<: \*shells`"):
        pin(folder, "shells", {"images.npy": SHA256})
    assert file.read_text("utf-8") == before
