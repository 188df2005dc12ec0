"""The images of a step: every epoch sees each image once, and several processes share the batch of one process."""

from collections.abc import Iterable

import numpy as np
import pytest
import torch
from torch import Tensor

from rtm.core import distributed
from rtm.data.batches import batch_of, expecting
from rtm.data.datasets import Images


@pytest.mark.parametrize(("images", "batch"), [(10, 4), (7, 7), (5, 16)])
def test_every_epoch_sees_each_image_once(images: int, batch: int) -> None:
    steps = images * 3  # a whole number of epochs
    stream = torch.cat([batch_of(0, step, batch, images) for step in range(steps)])
    epochs = stream[: len(stream) // images * images].view(-1, images)
    assert all(sorted(epoch.tolist()) == list(range(images)) for epoch in epochs)
    assert all(len(batch_of(0, step, batch, images)) == batch for step in range(steps))


class Expected(Images):
    """Ten images that record the expected batches."""

    def __init__(self) -> None:
        self.pixels = np.zeros((10, 1, 1, 3), np.uint8)
        self.parts: list[Tensor] = []

    def expect(self, parts: Iterable[Tensor], device: torch.device) -> None:
        self.parts += parts


@pytest.mark.parametrize(("processes", "accumulate"), [(1, 1), (2, 1), (2, 2), (4, 1)])
def test_together_the_processes_expect_the_next_batch(
    monkeypatch: pytest.MonkeyPatch,
    processes: int,
    accumulate: int,
) -> None:
    monkeypatch.setattr(distributed, "world", lambda: processes)
    images = Expected()
    for rank in range(processes):
        monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
        now = expecting(images, 3, 5, 4, accumulate, torch.device("cpu"))
        assert torch.equal(now, batch_of(3, 5, 4, 10))
    assert [len(part) for part in images.parts] == [4 // (processes * accumulate)] * processes * accumulate
    assert torch.equal(torch.cat(images.parts), batch_of(3, 6, 4, 10))
