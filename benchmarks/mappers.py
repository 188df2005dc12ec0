"""RTM against the literal Algorithm 1 and the MLP: time, training memory, and inside a whole generator."""

import runpy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.measuring import DEVICE, Groups, added_megabytes, alone, in_turn, show
from rtm import RTM, MLPMapper
from rtm.models.decoders import Decoder
from rtm.models.layers import compile_mapper

LITERAL = "literal Algorithm 1"
PRODUCTS = "its bare matrix products"
CIFAR: dict[int, int] = {1: 1, 4: 3, 8: 6, 16: 6, 32: 6}


def build(**options: Any) -> RTM:
    torch.manual_seed(0)
    return RTM(512, 4, 128, **{"H": 16, "L": 1, **options}).to(DEVICE)


def bare_products(mapper: RTM, batch: int) -> None:
    """Only the matrix products of one forward pass."""
    layer: Any = mapper.block.layers[0]
    tokens = torch.ones(mapper.tokens, batch * mapper.width, device=DEVICE)
    rows = tokens.view(-1, mapper.width)
    for _ in range(mapper.H * (mapper.L + 1)):
        for mix, x in ((layer.mix_tokens, tokens.T), (layer.mix_channels, rows)):
            gate, _ = (x @ half.T for half in mix.gate_up.weight.chunk(2))
            gate @ mix.down.weight.T


def speed(batch: int) -> Groups:
    mapper = build()
    compiled = build()
    mlp = MLPMapper(512, 8).to(DEVICE)
    compile_mapper(compiled)
    z = torch.randn(batch, 512, device=DEVICE)
    reference = runpy.run_path(str(Path(__file__).parents[1] / "tests/models/test_mappers.py"))["reference"]
    forward: dict[str, Callable[[], Tensor]] = {
        LITERAL: lambda: reference(mapper, z, {}),
        "RTM": lambda: mapper(z),
        "RTM, compiled block": lambda: compiled(z),
        "MLP of 8 layers": lambda: mlp(z),
    }
    step = {name: partial(backward, run) for name, run in forward.items()}
    with torch.no_grad():
        inference = in_turn(forward | {PRODUCTS: lambda: bare_products(mapper, batch)})
    return {"forward": inference, "step": in_turn(step)}


def backward(forward: Callable[[], Tensor]) -> None:
    forward().sum().backward()


def training_memory(H: int, gradient_steps: int, batch: int) -> float:
    mapper = build(H=H, gradient_steps=gradient_steps)
    mapper(torch.randn(1, 512, device=DEVICE)).sum().backward()
    z = torch.randn(batch, 512, device=DEVICE)
    return added_megabytes(lambda: mapper(z).sum().backward())


def generators(batch: int, repeats: int) -> dict[str, float]:
    torch.manual_seed(0)
    decoder = Decoder(512, "convnext", CIFAR, 768).to(DEVICE)
    z = torch.randn(batch, 512, device=DEVICE)

    def generate(mapper: nn.Module) -> Tensor:
        images: Tensor = decoder(mapper(z))
        return images

    mappers = {"MLP of 8 layers": MLPMapper(512, 8).to(DEVICE), "RTM": build()}
    with torch.no_grad():
        times = in_turn({name: partial(generate, mapper) for name, mapper in mappers.items()}, repeats)
    return {name: time / batch for name, time in times.items()}


def measure(batch: int = 256, images: int = 2, repeats: int = 11) -> Groups:
    speeds = alone(speed, batch)
    memory = {
        "H = 1": alone(training_memory, 1, 1, batch),
        "H = 64": alone(training_memory, 64, 1, batch),
        "H = 64, full backpropagation": alone(training_memory, 64, 64, batch),
    }
    whole = alone(generators, images, repeats)
    forward = speeds["forward"]
    step = speeds["step"]
    return {
        f"mapper forward without gradient, batch {batch}, s": forward,
        f"mapper training step, batch {batch}, s": step,
        f"mapper training step, batch {batch}, MB": memory,
        "CIFAR-10 generator, s an image": whole,
        "mapper ratios": {
            "forward, literal / RTM": forward[LITERAL] / forward["RTM"],
            "forward, literal / RTM, compiled block": forward[LITERAL] / forward["RTM, compiled block"],
            "forward, literal / bare products: the most there is to gain": forward[LITERAL] / forward[PRODUCTS],
            "forward, RTM / bare products": forward["RTM"] / forward[PRODUCTS],
            "forward, RTM / MLP": forward["RTM"] / forward["MLP of 8 layers"],
            "training step, literal / RTM": step[LITERAL] / step["RTM"],
            "training step, literal / RTM, compiled block": step[LITERAL] / step["RTM, compiled block"],
            "memory, H = 64 / H = 1": memory["H = 64"] / memory["H = 1"],
            "generator, with RTM / with MLP": whole["RTM"] / whole["MLP of 8 layers"],
        },
    }


if __name__ == "__main__":
    show(measure())
