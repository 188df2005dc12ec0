"""Weights are found by the receipt of their training, in a store of DVC too, and only if they are the recorded ones."""

import json
from pathlib import Path

import pytest
from support import ROOT

from rtm.checkpoints.stored import stored
from rtm.core.files import digest


def write(root: Path, scale: str, name: str, seed: int, content: str) -> str:
    """A receipt for weights with this content; return their md5."""
    (root / "weights").write_text(content, encoding="utf-8")
    md5 = digest(root / "weights", "md5")
    receipt = root / scale / f"lineage/train/{name}/seed{seed}.json"
    receipt.parent.mkdir(parents=True, exist_ok=True)
    outputs = {f"{scale}/checkpoints/{name}/seed{seed}.safetensors": {"md5": md5}, "curve.csv": {"md5": "0" * 32}}
    receipt.write_text(json.dumps({"outputs": outputs}), encoding="utf-8")
    return md5


def keep(store: Path, md5: str, content: str) -> Path:
    path = store / "files/md5" / md5[:2] / md5[2:]
    path.parent.mkdir(parents=True)
    path.write_text(content, encoding="utf-8")
    return path


def test_the_file_itself_comes_first_then_cache_and_remotes(tmp_path: Path) -> None:
    md5 = write(tmp_path, "desk", "horse", 0, "zero")
    assert stored("desk/horse", tmp_path) is None
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/config").write_text("['remote \"desk\"']\n    url = ../desk/store\n", encoding="utf-8")
    remote = keep(tmp_path / "desk/store", md5, "zero")
    assert stored("desk/horse", tmp_path) == tmp_path / ".dvc/../desk/store/files/md5" / md5[:2] / md5[2:]
    assert remote.exists()
    cached = keep(tmp_path / ".dvc/cache", md5, "zero")
    assert stored("desk/horse/seed0", tmp_path) == cached
    place = tmp_path / "desk/checkpoints/horse/seed0.safetensors"
    place.parent.mkdir(parents=True)
    place.write_text("zero", encoding="utf-8")
    assert stored("desk/horse", tmp_path) == place


def test_other_bytes_and_other_seeds_are_not_taken(tmp_path: Path) -> None:
    md5 = write(tmp_path, "desk", "horse", 0, "zero")
    cached = keep(tmp_path / ".dvc/cache", md5, "changed")
    assert stored("desk/horse", tmp_path) is None
    cached.write_text("zero", encoding="utf-8")
    assert stored("desk/horse", tmp_path) == cached
    assert stored("desk/horse/seed1", tmp_path) is None and stored("horse", tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"outputs": 3}'])
def test_a_damaged_receipt_names_nothing(tmp_path: Path, text: str) -> None:
    write(tmp_path, "", "horse", 0, "zero")
    (tmp_path / "lineage/train/horse/seed0.json").write_text(text, encoding="utf-8")
    assert stored("horse", tmp_path) is None


def test_the_desks_weights_are_in_the_repository() -> None:
    for name in ("desk_rtm", "desk_mlp8"):
        for seed in range(3):
            path = stored(f"desk/{name}/seed{seed}", ROOT)
            assert path is not None
