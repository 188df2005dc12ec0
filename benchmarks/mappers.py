"""RTM against the literal Algorithm 1 and the MLP: forward time, training memory, and inside a whole generator."""

import runpy
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.measuring import DEVICE, Groups, added_megabytes, alone, seconds, show
from rtm import RTM, MLPMapper
from rtm.decoders import Decoder

CIFAR: dict[int, int] = {1: 1, 4: 3, 8: 6, 16: 6, 32: 6}


def build(**options: Any) -> RTM:
    torch.manual_seed(0)
    return RTM(512, 4, 128, **{"H": 16, "L": 1, **options}).to(DEVICE)


def bare_products(mapper: RTM, batch: int) -> None:
    """The matrix products of one forward pass and nothing else."""
    layer: Any = mapper.block.layers[0]
    tokens = torch.ones(mapper.tokens, batch * mapper.width, device=DEVICE)
    rows = tokens.view(-1, mapper.width)
    for _ in range(mapper.H * (mapper.L + 1)):
        for mix, x in ((layer.mix_tokens, tokens.T), (layer.mix_channels, rows)):
            gate, _ = (x @ half.T for half in mix.gate_up.weight.chunk(2))
            gate @ mix.down.weight.T


VARIANTS = ["literal Algorithm 1", "RTM", "RTM, compiled block", "its bare matrix products", "MLP of 8 layers"]


def forward(batch: int, variants: list[str]) -> dict[str, float]:
    """Seconds of each variant, one after the other in this process."""
    mapper, compiled, mlp = build(), build(), MLPMapper(512, 8).to(DEVICE)
    if "RTM, compiled block" in variants:
        compiled.compile_block()
    z = torch.randn(batch, 512, device=DEVICE)
    literal = runpy.run_path(str(Path(__file__).parents[1] / "tests" / "test_mappers.py"))["reference"]
    runs = {
        "literal Algorithm 1": lambda: literal(mapper, z, {}),
        "RTM": lambda: mapper(z),
        "RTM, compiled block": lambda: compiled(z),
        "its bare matrix products": lambda: bare_products(mapper, batch),
        "MLP of 8 layers": lambda: mlp(z),
    }
    with torch.no_grad():
        return {variant: seconds(runs[variant]) for variant in variants}


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
        return {name: seconds(partial(generate, mapper), repeats) / batch for name, mapper in mappers.items()}


def measure(batch: int = 256, memory_batch: int = 256, images: int = 4, repeats: int = 3) -> Groups:
    times = {variant: alone(forward, batch, [variant])[variant] for variant in VARIANTS}
    together = alone(forward, batch, VARIANTS[::-1])  # the heap has grown by the time the literal one runs
    memory = {
        "H = 1": alone(training_memory, 1, 1, memory_batch),
        "H = 64": alone(training_memory, 64, 1, memory_batch),
        "H = 64, full backpropagation": alone(training_memory, 64, 64, memory_batch),
    }
    whole = alone(generators, images, repeats)
    return {
        f"mapper forward, batch {batch}, each in a new process, s": times,
        f"mapper forward, batch {batch}, in one process, s": together,
        f"mapper training step, batch {memory_batch}, MB": memory,
        "CIFAR-10 generator, s an image": whole,
        "mapper ratios": {
            "literal / RTM, new processes": times["literal Algorithm 1"] / times["RTM"],
            "literal / compiled, new processes": times["literal Algorithm 1"] / times["RTM, compiled block"],
            "literal / RTM, one process": together["literal Algorithm 1"] / together["RTM"],
            "literal / compiled, one process": together["literal Algorithm 1"] / together["RTM, compiled block"],
            "RTM / bare products": times["RTM"] / times["its bare matrix products"],
            "RTM / MLP": times["RTM"] / times["MLP of 8 layers"],
            "memory, H = 64 / H = 1": memory["H = 64"] / memory["H = 1"],
            "generator, with RTM / with MLP": whole["RTM"] / whole["MLP of 8 layers"],
        },
    }


if __name__ == "__main__":
    show(measure())
