"""A generator from its checkpoint. Weights are safetensors and the description is JSON, so no code in a file runs.

If a file names a class from outside of rtm, the caller must give the class or trust the file; otherwise it is an error.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from rtm.config.architecture import DEEPEST, FORMAT, MOST_PASSES, VERSION, Architecture
from rtm.core.devices import allow_tf32
from rtm.core.errors import UserError, printable
from rtm.core.readers import reading
from rtm.models.registry import MAPPERS, build_generator

LARGEST = 65_536  # limit for numbers in an architecture, as in params/, so that a foreign file cannot fill the memory

Classes = Mapping[str, type[nn.Module]]


@dataclass(frozen=True)
class Checkpoint:
    """A frozen generator, and what its file says about it."""

    generator: nn.Module
    architecture: Architecture
    info: dict[str, Any]  # the whole description: also the dataset, the recipe and the training


def load_generator(architecture: Architecture, path: Path, device: torch.device) -> nn.Module:
    """The trained generator of an experiment; an error if the file has another architecture."""
    if not path.exists():
        raise UserError(f"{path} is missing; train it, or get it with `dvc pull {path.parent}`.")
    allow_tf32(architecture.tf32)
    remedy = f"bring it back with `dvc checkout {path}`, or train it again"
    return load_checkpoint(path, device, remedy, expected=architecture, trust=True).generator


def load_checkpoint(
    path: Path,
    device: torch.device,
    remedy: str = "get it again",  # what to do about a damaged file
    expected: Architecture | None = None,  # refuse any other
    trust: bool = False,  # import the classes from outside of rtm that the file names
    classes: Classes | None = None,  # or use these classes, by the names in the file
) -> Checkpoint:
    with reading(path, remedy), safe_open(path, "pt") as file:
        metadata = file.metadata() or {}
        info = json.loads(metadata.get("rtm", "{}"))
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (it is no dict)
        for tensor in weights.values():
            assert tensor.is_floating_point(), f"weights of {tensor.dtype}"
            assert bool(tensor.isfinite().all()), "not finite"
    if not isinstance(info, dict):
        info = {}
    _refuse_another_format(path, info)
    if expected is not None and info.get("architecture") != json.loads(json.dumps(asdict(expected))):
        raise UserError(f"{path} does not fit the parameters in params/; train it again.")
    with reading(path, remedy):
        architecture = _architecture(info)
        _check_class_names(info)
        resolved = _with_classes(path, architecture, classes or {}, trust)
    with reading(path, remedy), torch.random.fork_rng(devices=[]):
        generator = _built(path, resolved, sum(tensor.numel() for tensor in weights.values()))
        generator.load_state_dict(weights)
    generator = generator.to(device).eval().requires_grad_(False)
    return Checkpoint(generator, architecture, info)


def _refuse_another_format(path: Path, info: Mapping[str, Any]) -> None:
    if "format" not in info:
        raise UserError(f"{path} does not describe its network; rtm {VERSION} reads checkpoints of format {FORMAT}.")
    if info["format"] != FORMAT:
        number = printable(info["format"])
        version = printable(info.get("version"))
        raise UserError(
            f"{path} has format {number}, and rtm {VERSION} reads format {FORMAT}; use rtm {version}, which wrote it."
        )


def _architecture(info: Mapping[str, Any]) -> Architecture:
    """The described architecture; an error if its values cannot be right."""
    architecture = Architecture(**info["architecture"])
    for size in (architecture.dim, architecture.resolution, architecture.classes):
        assert type(size) is int, "no sizes"
    assert type(architecture.tf32) is bool, "no tf32"
    assert architecture.classes >= 0, "no classes"
    _refuse_large(info["architecture"])
    _refuse_endless(architecture.mapper)
    return architecture


def _refuse_endless(mapper: Mapping[str, Any]) -> None:
    steps = mapper.get("H", 1)
    cycles = mapper.get("L", 1)
    numbers = isinstance(steps, int) and isinstance(cycles, int)  # otherwise the mapper is not built
    assert not numbers or steps <= DEEPEST, f"H is {steps}; at most {DEEPEST:,}"
    assert not numbers or steps * (cycles + 1) <= MOST_PASSES, f"H * (L + 1) is more than {MOST_PASSES:,}"


def _check_class_names(info: Mapping[str, Any]) -> None:
    names = info.get("dataset", {}).get("class_names") or []
    assert isinstance(names, list) and all(isinstance(name, str) for name in names), "its class names are no texts"


def _refuse_large(value: Any) -> None:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            _refuse_large(part)
    assert not isinstance(value, int | float) or abs(value) <= LARGEST, "a number in it is too large"


def _with_classes(
    path: Path,
    architecture: Architecture,
    classes: Classes,
    trust: bool,
) -> Architecture:
    """The architecture with the caller's classes in the place of their names; other names only if the file is
    trusted."""
    parts: dict[str, Any] = {"mapper": architecture.mapper, "decoder": architecture.decoder}
    for part, options in parts.items():
        kind = (options or {}).get("kind")
        if kind is None or (part == "mapper" and kind in MAPPERS):
            continue
        if kind in classes:
            parts[part] = {**options, "kind": classes[kind]}
        elif not trust:
            name = printable(kind)
            raise UserError(
                f"{path} was trained with {name}, a class from outside; pass classes={{{name!r}: TheClass}}, or "
                "trust=True to import it if you trust the file."
            )
    return replace(architecture, **parts)


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
        if parameter is not None:
            left -= parameter.numel()
        assert left >= 0, "its architecture does not fit its weights"

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()
