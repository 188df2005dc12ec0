"""One training step of StyleGAN2 at the CIFAR-10 configuration: with RTM and with the 2-layer MLP."""

import tempfile
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import torch

from benchmarks.measuring import DEVICE, Groups, alone, in_turn, random_images, show
from rtm.config import load
from rtm.data.datasets import Images
from rtm.methods.base import Setting
from rtm.methods.stylegan2.method import StyleGAN2Method

EXPERIMENTS = {"2-layer MLP": "cifar10_stylegan2_mlp", "RTM": "cifar10_stylegan2_rtm"}


def method(name: str, batch: int, images: Images) -> StyleGAN2Method:
    experiment = load("paper").experiments[name]
    here = {} if DEVICE == "cuda" else {"compile": False, "precision": "float32"}  # a CPU is slow in bfloat16
    training = experiment.recipe.training.model_copy(update={"batch": batch, **here})
    small = replace(experiment, recipe=experiment.recipe.model_copy(update={"training": training}))
    return StyleGAN2Method(Setting(small, 0, images, None, torch.device(DEVICE)))


def steps(batch: int, repeats: int) -> dict[str, float]:
    """Images per second. Step 0 is skipped, because its lazy regularisers count for the next 16 steps, too."""
    with tempfile.TemporaryDirectory() as folder:
        images = Images(random_images(Path(folder), 64, 32, classes=10))
        methods = {mapper: method(name, batch, images) for mapper, name in EXPERIMENTS.items()}
        numbers = {mapper: count(1) for mapper in methods}
        run = {mapper: partial(_next_step, method, numbers[mapper]) for mapper, method in methods.items()}
        return {mapper: batch / seconds for mapper, seconds in in_turn(run, repeats).items()}


def _next_step(method: StyleGAN2Method, numbers: "count[int]") -> None:
    method.step(next(numbers))


def measure(batch: int = 32, repeats: int = 5) -> Groups:
    speed = alone(steps, batch, repeats)
    return {
        f"StyleGAN2 training at CIFAR-10's configuration, batch {batch}, images/s": speed,
        "StyleGAN2 ratios": {"step, with RTM / with the 2-layer MLP": speed["2-layer MLP"] / speed["RTM"]},
    }


if __name__ == "__main__":
    show(measure())
