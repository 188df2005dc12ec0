"""The features of a set of images under a protocol, and the file of a reference."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save

from rtm.core.errors import UserError
from rtm.core.files import atomic
from rtm.core.readers import reading
from rtm.metrics.features import FeatureSet
from rtm.metrics.fid import Statistics, frechet_floor
from rtm.metrics.kid import Kernel


@dataclass(frozen=True)
class ImageSet:
    """The features of a set of images under a protocol."""

    quality: FeatureSet  # for FID and IS
    coverage: FeatureSet  # for precision and recall; the same object if one network serves both
    extractors: dict[str, str]  # name: digest

    @cached_property
    def statistics(self) -> Statistics:
        return Statistics.of(self.quality.features)

    @cached_property
    def floor(self) -> Callable[[int], tuple[float, tuple[int, int]]]:
        """A function from the number of generated images to `frechet_floor`; it computes each value once."""
        return cache(partial(frechet_floor, self.statistics))

    @cached_property
    def kernel(self) -> Kernel:
        return Kernel.of(self.quality.features)

    def save(self, path: Path) -> None:
        tensors = {"quality": self.quality.features}
        if self.quality.logits is not None:
            tensors["logits"] = self.quality.logits
        if self.coverage is not self.quality:
            tensors["coverage"] = self.coverage.features
        with atomic(path) as file:
            file.write(save(tensors, metadata={"extractors": json.dumps(self.extractors, sort_keys=True)}))

    @classmethod
    def load(cls, path: Path) -> "ImageSet":
        job = path.parents[2] / "reference" / path.parent.name / path.stem
        remedy = f"make it with `rtm make {job}`"
        if not path.exists():
            raise UserError(f"{path} is missing; {remedy}.")
        with reading(path, remedy), safe_open(path, "numpy") as file:
            tensors = load_file(path)
            extractors = json.loads(file.metadata()["extractors"])
            for array in tensors.values():
                assert np.isfinite(array).all(), "not finite"
            quality = FeatureSet(tensors["quality"], tensors.get("logits"))
        coverage = FeatureSet(tensors["coverage"], None) if "coverage" in tensors else quality
        return cls(quality, coverage, extractors)
