"""`rtm.load`: a generator from a checkpoint, local or remote. It needs only torch and safetensors.

generator = rtm.load("seed0.safetensors")
images = generator(count=16, seed=0)  # uint8 (16, R, R, 3)
"""

import inspect
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast

import torch
from torch import Tensor, nn

from rtm.checkpoints.addresses import local
from rtm.config.architecture import DEEPEST, Architecture
from rtm.core.devices import allow_tf32, best_device
from rtm.core.errors import UserError, printable
from rtm.core.pixels import to_pixels
from rtm.core.randomness import seed_of
from rtm.models.checkpoint import Classes, load_checkpoint
from rtm.models.drawing import draw, latents, noise_of, strip

STRONGEST = 10.0  # truncation; beyond it no image has any meaning
LAST = 2**53  # the largest number of an image, and the largest whole number that every reader of JSON keeps exactly
MOST_FRAMES = 4096
MEAN_OF = 4096  # number of latents for the mean w, which truncation needs


class DrawingOptions(TypedDict, total=False):
    """The options for drawing images."""

    H: int  # steps of a recursive mapper; by default as in training
    tolerance: float  # or: stop when a step changes a sample by less than this share ...
    max_H: int  # ... or after this many steps
    truncation: float  # 1 does not change w, 0 gives the mean image
    label: int | str  # class of a conditional generator; by default each image gets a random class


@dataclass(frozen=True)
class Sampler:
    """A generator that draws images. `module` is the network, `info` the metadata of the file."""

    module: nn.Module
    architecture: Architecture
    info: dict[str, Any]
    device: torch.device
    _means: dict[Any, Tensor] = field(default_factory=dict, repr=False)  # the mean w for each depth

    def __call__(
        self,
        count: int = 1,
        seed: int = 0,
        first: int = 0,  # number of the first image
        batch: int = 64,
        **options: Unpack[DrawingOptions],
    ) -> Tensor:
        """Images first, ..., first + count - 1 of a seed on the CPU, uint8 (count, R, R, 3). Image i of a seed is
        always the same image, also in the pipeline."""
        _require(count > 0 and batch > 0 and first >= 0, "count and batch must be positive, and first not negative")
        _require(first + count <= LAST, f"the number of an image is at most {LAST - 1:,}")
        batches = torch.arange(first, first + count, device=self.device).split(batch)
        return torch.cat([self._draw(seed, index, None, options) for index in batches])

    def interpolate(
        self, frames: int, count: int = 1, seed: int = 0, first: int = 0, **options: Unpack[DrawingOptions]
    ) -> Tensor:
        """Interpolate from each of `count` images to the next one, on the great circle between their latents, with the
        noise and the label of the first image: (count, frames, R, R, 3)."""
        _require(frames > 1 and count > 0 and first >= 0, "an interpolation has at least 2 frames and 1 image")
        _require(frames <= MOST_FRAMES, f"an interpolation has at most {MOST_FRAMES:,} frames")
        _require(first + count < LAST, f"the number of an image is at most {LAST - 1:,}")
        strips = []
        for number in range(first, first + count):
            index, z = strip(seed, number, frames, self.architecture.dim, self.device)
            strips.append(self._draw(seed, index, z, options))
        return torch.stack(strips)

    @torch.no_grad()
    def _draw(self, seed: int, index: Tensor, z: Tensor | None, options: DrawingOptions) -> Tensor:
        depth: dict[str, Any] = {**options}
        truncation = depth.pop("truncation", 1.0)
        label = depth.pop("label", None)
        self._check(truncation, depth)
        labels = None if label is None else torch.full_like(index, self.label(label))
        with _tf32(self.architecture.tf32):
            if truncation != 1 and not self.architecture.stylegan2:
                images = self._draw_truncated(seed, index, z, truncation, depth)
            else:
                if truncation != 1:
                    depth["truncation"] = truncation
                images = draw(self.module, self.architecture, seed, index, z, labels, **depth)
        side = self.architecture.resolution
        size = " x ".join(map(str, images.shape[1:3]))
        _require(images.shape[1:3] == (side, side), f"this checkpoint says {side} px and draws {size} px; get it again")
        return images.cpu()

    def _draw_truncated(
        self, seed: int, index: Tensor, z: Tensor | None, truncation: float, depth: dict[str, Any]
    ) -> Tensor:
        """Images whose w are moved towards the mean w; StyleGAN2 does this itself."""
        network = cast(Any, self.module)
        if z is None:
            z = latents(seed, index, self.architecture.dim)
        w = self._mean(depth).lerp(network.mapper(z, **depth), truncation)
        return to_pixels(network.decode(w, noise_of(seed, index))).permute(0, 2, 3, 1)

    def _check(self, truncation: float, depth: dict[str, float]) -> None:
        usual = math.isfinite(truncation) and abs(truncation) <= STRONGEST
        _require(usual, f"truncation must be a number from -{STRONGEST:g} to {STRONGEST:g}")
        parameters = inspect.signature(cast(nn.Module, self.module.mapper).forward).parameters
        kind = printable(self.architecture.mapper["kind"])
        for name, value in depth.items():
            _require(name in parameters, f"this checkpoint's mapper ({kind}) takes no {name}; leave {name} out")
            _require(value > 0, f"{name} is {value}; it must be positive")
            _require(name not in ("H", "max_H") or value <= DEEPEST, f"{name} is {value}; at most {DEEPEST:,}")
        _require(not {"H", "tolerance"} <= depth.keys(), "give H or tolerance, not both")

    def _mean(self, depth: dict[str, Any]) -> Tensor:
        """The mean w (1, dim) of the first latents of a fixed seed; StyleGAN2 uses its running mean from training."""
        key = tuple(sorted(depth.items()))
        if key not in self._means:
            z = latents(seed_of("mean of w"), torch.arange(MEAN_OF, device=self.device), self.architecture.dim)
            w = [cast(Any, self.module).mapper(part, **depth) for part in z.split(512)]
            self._means[key] = torch.cat(w).mean(0, keepdim=True)
        return self._means[key]

    def label(self, word: int | str) -> int:
        """The number of a class, given by its number or name."""
        classes = self.architecture.classes
        names = self.info.get("dataset", {}).get("class_names") or ()
        _require(classes > 0, "this checkpoint has no classes; leave the class out")
        choices = f"0 to {classes - 1}"
        if names:
            choices += f" or one of {printable(', '.join(names))}"
        if word in names:
            return int(names.index(word))
        number = int(word) if str(word).isdecimal() else classes
        _require(number < classes, f"there is no class {printable(word)}; choose {choices}")
        return number


def load(
    source: str | Path,  # a file, https://..., or hf://owner/name/file
    device: str | torch.device | None = None,  # by default a GPU if there is one
    trust: bool = False,  # import the classes from outside of rtm that the file names
    classes: Classes | None = None,  # or use these classes, by the names in the file
) -> Sampler:
    path = local(source)
    if not path.is_file():
        raise UserError(
            f"There is no checkpoint {printable(source)}; give a file, https://... or hf://owner/name/file."
        )
    where = best_device() if device is None else torch.device(device)
    checkpoint = load_checkpoint(path, where, trust=trust, classes=classes)
    return Sampler(checkpoint.generator, checkpoint.architecture, checkpoint.info, where)


@contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    before = torch.backends.cudnn.allow_tf32
    allow_tf32(allowed)
    try:
        yield
    finally:
        allow_tf32(before)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise UserError(f"{message[0].upper()}{message[1:]}.")
