"""References come back from their files as they were written, and a damaged file names its command."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from numpy.testing import assert_array_equal
from safetensors.torch import save_file
from support.image_sets import image_set

from rtm.core.errors import UserError
from rtm.metrics.image_set import ImageSet


def test_a_reference_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "digits" / "protocol.safetensors"
    two = image_set(20, 2)
    for written in (two, replace(two, coverage=two.quality)):
        written.save(path)
        read = ImageSet.load(path)
        assert_array_equal(read.quality.features, written.quality.features)
        assert_array_equal(read.coverage.features, written.coverage.features)
        assert read.extractors == written.extractors


def test_a_missing_or_damaged_one_names_its_command(tmp_path: Path) -> None:
    path = tmp_path / "digits" / "protocol.safetensors"
    with pytest.raises(UserError, match=r"rtm make .*reference/digits/protocol"):
        ImageSet.load(path)
    image_set(20, 2).save(path)
    path.write_bytes(path.read_bytes()[:-9])
    damaged = r"protocol\.safetensors is damaged .* `rtm make .*reference/digits/protocol`"
    with pytest.raises(UserError, match=damaged):
        ImageSet.load(path)
    save_file({"other": torch.zeros(2)}, path)
    with pytest.raises(UserError, match=damaged):
        ImageSet.load(path)
