"""Kept features: extracted once, found by content, and not used if they are damaged or come from other code."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from rtm.metrics.features import Extractor, Features, extract, identity
from rtm.metrics.images import load_images
from rtm.metrics.kept import BLOCK, Kept, uses

Pixels = NDArray[np.uint8]


class Counting(Extractor):
    """Its features are a fixed projection of the pixels. It counts the images and stops after `most` of them."""

    def __init__(self, digest: str = "one", factor: float = 1.0, most: int = 10**9) -> None:
        super().__init__()
        self.digest, self.title, self.factor, self.most, self.count = digest, digest, factor, most, 0

    def forward(self, images: torch.Tensor) -> Features:
        self.count += len(images)
        if self.count > self.most:
            raise KeyboardInterrupt
        means = images.float().mean((2, 3)) * self.factor
        return Features(means, means.cumsum(1))


def pixels(count: int, seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (count, 4, 4, 3), dtype=np.uint8)


def taken(folder: Path, images: Pixels, extractor: Counting) -> int:
    """The number of images that were extracted. The features that come back must equal a plain extraction."""
    kept = Kept(folder, extractor, 64, "cpu")
    before = extractor.count
    found = kept.features(images, len(images))
    count = extractor.count - before
    plain = extract(images, extractor, 64, "cpu")
    np.testing.assert_array_equal(found.features, plain.features)
    assert found.logits is not None and plain.logits is not None
    np.testing.assert_array_equal(found.logits, plain.logits)
    return count


def test_an_image_is_extracted_once_in_whatever_order_and_company(tmp_path: Path) -> None:
    images = pixels(2 * BLOCK + 30)
    assert taken(tmp_path, images, Counting()) == len(images)
    assert taken(tmp_path, images, Counting()) == 0
    chosen = np.random.default_rng(1).permutation(len(images))[:700]
    assert taken(tmp_path, images[chosen], Counting()) == 0
    assert taken(tmp_path, np.concatenate([images[:20], pixels(7, seed=2), images[:5]]), Counting()) == 7
    assert taken(tmp_path, np.concatenate([pixels(1, seed=3)] * 9), Counting()) == 1
    assert taken(tmp_path, images, Counting("another network")) == len(images)
    kept = {each.network: each.images for each in uses(tmp_path)}
    assert kept == {"one": len(images) + 8, "another network": len(images)}


def test_the_shape_of_an_image_is_a_part_of_it(tmp_path: Path) -> None:
    wide = pixels(3).reshape(3, 2, 8, 3)
    assert taken(tmp_path, pixels(3), Counting()) == taken(tmp_path, wide, Counting()) == 3


def test_an_interrupted_extraction_goes_on_at_its_block(tmp_path: Path) -> None:
    images = pixels(3 * BLOCK)
    with pytest.raises(KeyboardInterrupt):
        taken(tmp_path, images, Counting(most=2 * BLOCK + 100))
    assert taken(tmp_path, images, Counting()) == BLOCK


def test_features_of_other_code_are_extracted_again(tmp_path: Path) -> None:
    assert taken(tmp_path, pixels(9), Counting()) == 9
    assert taken(tmp_path, pixels(9), Counting(factor=1.001)) == 9
    assert taken(tmp_path, pixels(9), Counting(factor=1.001)) == 0
    assert taken(tmp_path, pixels(9), Counting()) == 0


def rewritten(path: Path, content: bytes) -> None:
    """Write other content under the same name and with the same times."""
    before = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_content_counts_not_names_or_times(tmp_path: Path) -> None:
    """Another image or other weights under the old name are noticed."""
    path, other, folder = tmp_path / "images" / "0.png", tmp_path / "other.png", tmp_path / "kept"
    path.parent.mkdir()
    for place, image in ((path, pixels(1)[0]), (other, pixels(1, seed=1)[0])):
        Image.fromarray(image).save(place)
    assert taken(folder, load_images(path.parent)[0:1], Counting()) == 1
    first = identity(path, "none")
    rewritten(path, other.read_bytes())
    assert taken(folder, load_images(path.parent)[0:1], Counting()) == 1
    assert identity(path, "none") != first


def test_a_file_that_another_process_removes_is_made_again(tmp_path: Path) -> None:
    images, extractor = pixels(9), Counting()
    assert taken(tmp_path, images, Counting()) == 9
    kept = Kept(tmp_path, extractor, 64, "cpu")
    (path,) = tmp_path.glob("one/*.safetensors")
    path.unlink()
    before = extractor.count
    kept.features(images, 9)
    assert extractor.count - before == 9 and path.exists()


@pytest.mark.parametrize("damage", [lambda whole: whole[:-9], lambda whole: whole[:-1] + bytes([whole[-1] ^ 1])])
def test_a_damaged_file_is_made_again(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    assert taken(tmp_path, pixels(9), Counting()) == 9
    (path,) = tmp_path.glob("one/*.safetensors")
    path.write_bytes(damage(path.read_bytes()))
    assert taken(tmp_path, pixels(9), Counting()) == 9
    assert taken(tmp_path, pixels(9), Counting()) == 0
