"""Expected batches are read ahead once; a damaged file is named."""

from pathlib import Path

import numpy as np
import pytest
import torch
from support.archives import flat, write_folder
from support.datasets import toy

from rtm.core.errors import UserError
from rtm.core.pixels import to_unit
from rtm.data.datasets import Images
from rtm.data.prepare import prepare

CPU = torch.device("cpu")
GPU = torch.device("cuda")


class Few(Images):
    """Ten images; `reads` counts how often they are read."""

    def __init__(self) -> None:
        self.pixels = np.random.default_rng(0).integers(0, 256, (10, 2, 2, 3), np.uint8)
        self.reads = 0

    def _read(self, index: torch.Tensor) -> torch.Tensor:
        self.reads += 1
        return super()._read(index)


def test_an_expected_batch_is_read_once_ahead_and_another_when_asked() -> None:
    images = Few()
    parts = torch.tensor([7, 1, 3, 0]).chunk(2)
    images.expect(parts, GPU)
    for index in (*parts, torch.tensor([2, 2])):
        expected = to_unit(torch.from_numpy(images.pixels[index.numpy()]).permute(0, 3, 1, 2))
        assert torch.equal(images.batch(index, CPU), expected)
    assert images.reads == 3
    assert not images._ahead
    images.batch(parts[0], CPU)
    assert images.reads == 4


def test_nothing_is_read_ahead_for_a_cpu() -> None:
    images = Few()
    images.expect([torch.tensor([1])], CPU)
    assert images.reads == 0
    assert not images._ahead


@pytest.mark.parametrize(
    ("name", "content"),
    [("images.npy", None), ("labels.npy", b""), ("meta.json", b"{}"), ("meta.json", b"[]"), ("meta.json", b"\xff")],
)
def test_a_damaged_file_is_named(
    images: Path,
    tmp_path: Path,
    name: str,
    content: bytes | None,
) -> None:
    prepare(
        "toy",
        toy(count=1, classes=1),
        images,
        write_folder(tmp_path / "toy", {"a/0.png": flat(8, 0)}),
    )
    path = images.with_name(name)
    path.write_bytes(path.read_bytes()[:-1] if content is None else content)
    damaged = r"(is damaged or of another kind|cannot be read) \(.*\); (get it with `rtm fetch toy`|bring it back)"
    with pytest.raises(UserError, match=f"{name} ({damaged})"):
        Images(images)
