"""One training step of RS-IMLE at the desk's configuration, with LPIPS: target maps kept, and computed again."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import torch

from benchmarks.measuring import DEVICE, Groups, alone, in_turn, random_images, show
from rtm.config import load
from rtm.data.datasets import Images
from rtm.methods.base import Setting
from rtm.methods.imle.method import ImleMethod


def steps(repeats: int) -> dict[str, float]:
    """Images a second, without matching rounds."""
    config = load("desk")
    experiment = config.experiment("desk_rtm")
    imle = experiment.recipe.imle
    assert imle is not None
    few = imle.model_copy(update={"pool": 0.5, "refresh": 10**6, "epsilon": 0.0})
    experiment = replace(experiment, recipe=experiment.recipe.model_copy(update={"imle": few}))
    batch = experiment.recipe.training.batch
    with tempfile.TemporaryDirectory() as folder:
        images = Images(random_images(Path(folder), experiment.dataset.count, 32))
        setting = Setting(experiment, 0, images, config.layout.weights("vgg16"), torch.device(DEVICE))
        methods = {name: ImleMethod(setting) for name in ("kept", "computed again")}
        methods["computed again"].__dict__["targets"] = None
        run: dict[str, Callable[[], object]] = {
            name: partial(_next_step, method, count()) for name, method in methods.items()
        }
        return {name: batch / seconds for name, seconds in in_turn(run, repeats).items()}


def _next_step(method: ImleMethod, numbers: "count[int]") -> None:
    method.step(next(numbers))


def measure(repeats: int = 7) -> Groups:
    speed = alone(steps, repeats)
    return {
        "RS-IMLE training at the desk's configuration, images/s": speed,
        "RS-IMLE ratios": {"step, target maps computed again / kept": speed["kept"] / speed["computed again"]},
    }


if __name__ == "__main__":
    show(measure())
