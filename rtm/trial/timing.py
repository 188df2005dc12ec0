"""How fast this machine trains: a few real steps on a few of the images."""

import time
from dataclasses import dataclass, replace

import torch

from rtm.config import Config, Experiment
from rtm.core.devices import best_device
from rtm.methods.imle.method import ImleMethod
from rtm.training.assembly import setting_of
from rtm.trial.beginning import provisional
from rtm.trial.recipe import FEWEST_STEPS, MAPPERS, Choice, epochs_for

IMAGES = 32  # number of images for the timing
STEPS = 3
LOOKS = 6  # corrections of the length


@dataclass(frozen=True)
class Pace:
    step: float  # seconds
    pooled: float  # seconds for each image of a pool: to decode it, get its features and compare it

    def seconds(self, experiment: Experiment) -> float:
        """The seconds of a whole training."""
        imle, steps, images = experiment.recipe.imle, experiment.steps(), experiment.dataset.count
        assert imle is not None
        rounds = -(-steps * experiment.recipe.training.batch // (images * imle.refresh))
        return steps * self.step + rounds * imle.pool * images * self.pooled


def pace(config: Config, experiment: Experiment) -> Pace:
    """Time the first round and the steps after it, the same as in a training."""
    torch.set_num_threads(experiment.recipe.resources.cpus)
    setting = setting_of(config.layout, experiment, 0, best_device())
    setting.images.pixels = setting.images.pixels[:IMAGES]
    method = ImleMethod(setting)
    seconds = [_timed(method, step) for step in range(STEPS + 1)]
    step = sorted(seconds[1:])[STEPS // 2]
    return Pace(step, max(0.0, seconds[0] - step) / method.m)


def _timed(method: ImleMethod, step: int) -> float:
    began = time.monotonic()
    method.step(step)
    if method.setting.device.type == "cuda":
        torch.cuda.synchronize()
    return time.monotonic() - began


def length(choice: Choice, sha256: str, minutes: float | None, epochs: int | None) -> tuple[Choice, float]:
    """The trial with its length (given, or suitable for the machine), and the seconds that the trainings take."""
    config = provisional(choice, sha256)
    slowest = config.experiments[f"{choice.name}_rtm"]
    speed = pace(config, slowest)
    number = len(MAPPERS)
    beside = 1 if choice.machine.gpus or choice.machine.cores < number else number
    budget = 60 * (minutes or choice.machine.minutes) * beside / number
    choice = replace(choice, epochs=epochs or _fitting(choice, sha256, speed, budget))
    final = provisional(choice, sha256).experiments[slowest.name]
    return choice, speed.seconds(final) * number / beside


def _fitting(choice: Choice, sha256: str, speed: Pace, budget: float) -> int:
    """The epochs of a training that takes about `budget` seconds. The time is not proportional to the steps, because
    the size of a pool has limits; so each look corrects the one before."""
    epochs = float(choice.epochs)
    for _ in range(LOOKS):
        tried = provisional(replace(choice, epochs=max(1, round(epochs))), sha256)
        epochs *= budget / speed.seconds(tried.experiments[f"{choice.name}_rtm"])
    return epochs_for(max(FEWEST_STEPS, epochs * choice.images / choice.batch), choice)
