"""Precision, recall, density and coverage of few images against the bare matrix products: what is left to gain."""

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks.measuring import Groups, alone, in_turn, inception_like, show
from benchmarks.precision_recall import products
from rtm.metrics.prdc import prdc


def beside_products(count: int, width: int, repeats: int) -> dict[str, float]:
    real = inception_like(count, width, 1)
    fake = inception_like(count, width, 2)
    tensors = torch.from_numpy(real), torch.from_numpy(fake)
    variants = {
        "bare matrix products": lambda: products(*tensors),
        "prdc of rtm": lambda: prdc(real, fake, device="cpu"),
    }
    with threadpool_limits(1):
        return in_turn(variants, repeats)


def measure(count: int = 3000, width: int = 2048, repeats: int = 3) -> Groups:
    times = alone(beside_products, count, width, repeats)
    return {
        f"precision, recall, density, coverage, {count} + {count} x {width}, s": times,
        "precision and recall of few images, ratios": {
            f"N = {count}, ours / bare products": times["prdc of rtm"] / times["bare matrix products"]
        },
    }


if __name__ == "__main__":
    show(measure())
