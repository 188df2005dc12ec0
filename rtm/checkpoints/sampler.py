"""`rtm.load`: a generator from a checkpoint, local or remote. It needs only torch and safetensors.

    generator = rtm.load("seed0.safetensors")
    images = generator(count=16, seed=0)  # uint8 (16, R, R, 3)

No code in a file runs: weights are safetensors, everything else is JSON. If a file names a class from outside of rtm,
the caller must give the class or trust the file; otherwise it is an error.
"""

import inspect
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from rtm.checkpoints.addresses import local
from rtm.config.architecture import FORMAT, VERSION, Architecture
from rtm.core.devices import allow_tf32, best_device
from rtm.core.errors import UserError, printable
from rtm.core.files import reading
from rtm.core.pixels import to_pixels
from rtm.core.randomness import seed_of
from rtm.models.drawing import draw, latents, noise_of, slerp
from rtm.models.registry import MAPPERS, build_generator

LARGEST = 65_536  # limit for numbers in an architecture, as in params/, so that a foreign file cannot fill the memory
MEAN_OF = 4096  # number of latents for the mean w, which truncation needs


class Options(TypedDict, total=False):
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
        **options: Unpack[Options],
    ) -> Tensor:
        """Images first, ..., first + count - 1 of a seed on the CPU, uint8 (count, R, R, 3). Image i of a seed is
        always the same image, also in the pipeline."""
        _require(count > 0 and batch > 0 and first >= 0, "count and batch must be positive, and first not negative")
        parts = torch.arange(first, first + count, device=self.device).split(batch)
        return torch.cat([self._drawn(seed, index, None, options) for index in parts])

    def interpolate(
        self, frames: int, count: int = 1, seed: int = 0, first: int = 0, **options: Unpack[Options]
    ) -> Tensor:
        """Interpolate from each of `count` images to the next one, on the great circle between their latents, with the
        noise and the label of the first image: (count, frames, R, R, 3)."""
        _require(frames > 1 and count > 0 and first >= 0, "an interpolation has at least 2 frames and 1 image")
        strips = []
        for place in range(first, first + count):
            one, other = latents(seed, torch.tensor([place, place + 1], device=self.device), self.architecture.dim)
            z = slerp(one, other, torch.linspace(0, 1, frames, device=self.device))
            index = torch.full((frames,), place, device=self.device)
            strips.append(self._drawn(seed, index, z, options))
        return torch.stack(strips)

    @torch.no_grad()
    def _drawn(self, seed: int, index: Tensor, z: Tensor | None, options: Options) -> Tensor:
        depth: dict[str, Any] = {**options}
        truncation, label = depth.pop("truncation", 1.0), depth.pop("label", None)
        self._check(truncation, depth)
        labels = None if label is None else torch.full_like(index, self.label(label))
        with _tf32(self.architecture.tf32):
            if truncation != 1 and not self.architecture.stylegan2:
                z = latents(seed, index, self.architecture.dim) if z is None else z
                network = cast(Any, self.module)
                w = self._mean(depth).lerp(network.mapper(z, **depth), truncation)
                return to_pixels(network.decode(w, noise_of(seed, index))).permute(0, 2, 3, 1).cpu()
            truncated = {} if truncation == 1 else {"truncation": truncation}
            return draw(self.module, self.architecture, seed, index, z, labels, **truncated, **depth).cpu()

    def _check(self, truncation: float, depth: dict[str, float]) -> None:
        _require(math.isfinite(truncation), "truncation must be a finite number")
        known = inspect.signature(cast(nn.Module, self.module.mapper).forward).parameters
        for name, value in depth.items():
            kind = printable(self.architecture.mapper["kind"])
            _require(name in known, f"this checkpoint's mapper ({kind}) takes no {name}; leave {name} out")
            _require(value > 0, f"{name} is {value}; it must be positive")
        _require(not {"H", "tolerance"} <= depth.keys(), "give H or tolerance, not both")

    def _mean(self, depth: dict[str, Any]) -> Tensor:
        """The mean w (1, dim) of the first latents of a fixed seed; StyleGAN2 uses its running mean from training."""
        key = tuple(sorted(depth.items()))
        if key not in self._means:
            z = latents(seed_of("mean of w"), torch.arange(MEAN_OF, device=self.device), self.architecture.dim)
            parts = [cast(Any, self.module).mapper(part, **depth) for part in z.split(512)]
            self._means[key] = torch.cat(parts).mean(0, keepdim=True)
        return self._means[key]

    def label(self, given: int | str) -> int:
        """The number of a class, given by its number or name."""
        classes, names = self.architecture.classes, self.info["dataset"].get("class_names", ())
        _require(classes > 0, "this checkpoint has no classes; leave the class out")
        number = names.index(given) if given in names else int(given) if str(given).isdecimal() else classes
        listed = f"0 to {classes - 1}" + (f" or one of {printable(', '.join(names))}" if names else "")
        _require(number < classes, f"there is no class {printable(given)}; choose {listed}")
        return number


def load(
    source: str | Path,  # a file, https://..., or hf://owner/name/file
    device: str | torch.device | None = None,  # by default a GPU if there is one
    trust: bool = False,  # import the classes from outside of rtm that the file names
    classes: Mapping[str, type[nn.Module]] | None = None,  # or use these classes, by the names in the file
) -> Sampler:
    path = local(source)
    if not path.is_file():
        raise UserError(
            f"There is no checkpoint {printable(source)}; give a file, https://... or hf://owner/name/file."
        )
    with reading(path, "get it again"), safe_open(path, "pt") as file:
        info = json.loads((file.metadata() or {}).get("rtm", "{}"))
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (it is no dict)
        assert all(bool(each.isfinite().all()) for each in weights.values()), "not finite"
    _refuse_another_format(path, info)
    with reading(path, "get it again"):
        described = Architecture(**info["architecture"])
        assert {type(each) for each in (described.dim, described.resolution, described.classes)} == {int}, "no sizes"
        assert type(described.tf32) is bool and described.classes >= 0, "no classes, or no tf32"
        _refuse_endless(asdict(described))
        own = _own(path, described, trust, classes or {})
    with reading(path, "get it again"), torch.random.fork_rng(devices=[]):
        module = _built(path, own, sum(each.numel() for each in weights.values()))
        module.load_state_dict(weights)
    chosen = best_device() if device is None else torch.device(device)
    return Sampler(module.to(chosen).eval().requires_grad_(False), described, info, chosen)


def _refuse_another_format(path: Path, info: dict[str, Any]) -> None:
    if "format" not in info:
        raise UserError(f"{path} does not describe its network; rtm {VERSION} reads checkpoints of format {FORMAT}.")
    if info["format"] != FORMAT:
        found, version = printable(info["format"]), printable(info.get("version"))
        raise UserError(
            f"{path} has format {found}, and rtm {VERSION} reads format {FORMAT}; use rtm {version}, which wrote it."
        )


def _own(path: Path, described: Architecture, trust: bool, classes: Mapping[str, type[nn.Module]]) -> Architecture:
    """The architecture, in which names of classes from outside of rtm are resolved, if the caller allows them."""
    given: dict[str, Any] = {"mapper": described.mapper, "decoder": described.decoder}
    for part, options in given.items():
        kind = (options or {}).get("kind")
        if kind is None or (part == "mapper" and kind in MAPPERS):
            continue
        if kind not in classes and not trust:
            name = printable(kind)
            raise UserError(
                f"{path} was trained with {name}, a class from outside; pass classes={{{name!r}: TheClass}}, or "
                "trust=True to import it if you trust the file."
            )
        given[part] = {**options, "kind": classes.get(kind, kind)}
    return replace(described, **given)


def _refuse_endless(value: Any) -> None:
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _refuse_endless(each)
    assert not isinstance(value, int | float) or abs(value) <= LARGEST, "a number in it is too large"


def _built(path: Path, architecture: Architecture, numbers: int) -> nn.Module:
    try:
        with _at_most(numbers):
            return build_generator(architecture)
    except UserError as error:  # its message is about params/
        raise UserError(f"{path} does not describe a network that can be built: {error}") from None


@contextmanager
def _at_most(numbers: int) -> Iterator[None]:
    """Stop building a network as soon as it has more parameters than its weights."""
    left = numbers

    def count(_module: nn.Module, _name: str, parameter: nn.Parameter | None) -> None:
        nonlocal left
        left -= parameter.numel() if parameter is not None else 0
        assert left >= 0, "its architecture does not fit its weights"

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


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
