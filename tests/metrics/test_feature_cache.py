"""Kept features: extracted once, found by content, and not used if they are damaged or come from other code."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from PIL import Image

from rtm.metrics.feature_cache import BLOCK, FeatureCache
from rtm.metrics.features import Extractor, Features, extract, identity
from rtm.metrics.images import Pixels, load_images

PROBES = 2


class Counting(Extractor):
    """Its features are a fixed projection of the pixels. It counts the images and stops after `most` of them."""

    def __init__(self, digest: str = "one", factor: float = 1.0, most: int = 10**9) -> None:
        super().__init__()
        self.digest = digest
        self.title = digest
        self.factor = factor
        self.most = most
        self.count = 0

    def forward(self, images: torch.Tensor) -> Features:
        self.count += len(images)
        if self.count > self.most:
            raise KeyboardInterrupt
        means = images.float().mean((2, 3)) * self.factor
        return Features(means, means.cumsum(1))


def pixels(count: int, seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (count, 4, 4, 3), dtype=np.uint8)


def extracted(folder: Path, images: Pixels, digest: str = "one", factor: float = 1.0) -> int:
    """The number of images that were extracted. The features that come back must equal a plain extraction."""
    extractor = Counting(digest, factor)
    features = FeatureCache(folder, extractor, 64, "cpu").features(images, len(images))
    plain = extract(images, Counting(digest, factor), 64, "cpu")
    assert_array_equal(features.features, plain.features)
    assert features.logits is not None
    assert plain.logits is not None
    assert_array_equal(features.logits, plain.logits)
    return extractor.count - PROBES


def test_a_block_of_images_is_extracted_once(tmp_path: Path) -> None:
    images = pixels(2 * BLOCK + 30)
    assert extracted(tmp_path, images) == len(images)
    assert extracted(tmp_path, images) == 0
    assert extracted(tmp_path, images[BLOCK:]) == 0  # another set may have a block of this one
    assert extracted(tmp_path, images[: BLOCK + 3]) == 3
    assert extracted(tmp_path, images, "another network") == len(images)


def test_the_shape_of_an_image_is_a_part_of_it(tmp_path: Path) -> None:
    wide = pixels(3).reshape(3, 2, 8, 3)
    assert extracted(tmp_path, pixels(3)) == 3
    assert extracted(tmp_path, wide) == 3


def test_an_interrupted_extraction_goes_on_at_its_block(tmp_path: Path) -> None:
    images = pixels(3 * BLOCK)
    stopping = Counting(most=2 * BLOCK + 100)
    with pytest.raises(KeyboardInterrupt):
        FeatureCache(tmp_path, stopping, 64, "cpu").features(images, len(images))
    assert extracted(tmp_path, images) == BLOCK


def test_features_of_other_code_are_extracted_again(tmp_path: Path) -> None:
    assert extracted(tmp_path, pixels(9)) == 9
    assert extracted(tmp_path, pixels(9), factor=1.001) == 9
    assert extracted(tmp_path, pixels(9), factor=1.001) == 0


def rewrite(path: Path, content: bytes) -> None:
    """Write other content under the same name and with the same times."""
    before = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_content_counts_not_names_or_times(tmp_path: Path) -> None:
    """Another image or other weights under the old name are noticed."""
    path = tmp_path / "images/0.png"
    path.parent.mkdir()
    other = tmp_path / "other.png"
    Image.fromarray(pixels(1)[0]).save(path)
    Image.fromarray(pixels(1, seed=1)[0]).save(other)
    assert extracted(tmp_path / "kept", load_images(path.parent)[0:1]) == 1
    before = identity(path, "none")
    rewrite(path, other.read_bytes())
    assert extracted(tmp_path / "kept", load_images(path.parent)[0:1]) == 1
    assert identity(path, "none") != before


def cut(content: bytes) -> bytes:
    return content[:-9]


def flipped(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize("damage", [cut, flipped])
def test_a_damaged_file_is_made_again(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    assert extracted(tmp_path, pixels(9)) == 9
    (path,) = tmp_path.glob("one/*")
    path.write_bytes(damage(path.read_bytes()))
    assert extracted(tmp_path, pixels(9)) == 9
    assert extracted(tmp_path, pixels(9)) == 0
