"""One training step of RS-IMLE at the desk's configuration, with LPIPS: target maps and memory kept, or not."""

import statistics
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import torch

from benchmarks.measuring import DEVICE, Groups, alone, in_turn, peak_megabytes, random_images, show
from rtm.config import load
from rtm.data.datasets import Images
from rtm.methods.base import Setting
from rtm.methods.imle.method import ImleMethod
from rtm.stages.network import Network
from rtm.training.devices import keep_memory


def started(folder: str) -> ImleMethod:
    """A started training without matching rounds."""
    config = load("desk")
    experiment = config.experiment("desk_rtm")
    imle = experiment.recipe.imle
    assert imle is not None
    few = imle.model_copy(update={"pool": 0.5, "refresh": 10**6, "epsilon": 0.0})
    experiment = replace(experiment, recipe=experiment.recipe.model_copy(update={"imle": few}))
    images = Images(random_images(Path(folder), experiment.dataset.count, 32))
    return ImleMethod(
        Setting(experiment, 0, images, Network().path(config, "weights", network="vgg16"), torch.device(DEVICE))
    )


def steps(repeats: int) -> dict[str, float]:
    """Seconds of a step, with kept target maps and with maps that are computed again."""
    with tempfile.TemporaryDirectory() as folder:
        methods = {name: started(folder) for name in ("kept", "computed again")}
        methods["computed again"].__dict__["targets"] = None
        run: dict[str, Callable[[], object]] = {
            name: partial(_next_step, method, count()) for name, method in methods.items()
        }
        return in_turn(run, repeats)


def steps_with_memory(kept: bool, repeats: int) -> tuple[float, float]:
    """Seconds of a step, and the most memory of the process in MB."""
    if kept:
        keep_memory()
    with tempfile.TemporaryDirectory() as folder:
        method = started(folder)
        seconds = in_turn({"step": partial(_next_step, method, count())}, repeats)["step"]
    return seconds, peak_megabytes()


def _next_step(method: ImleMethod, numbers: "count[int]") -> None:
    method.step(next(numbers))


def measure(repeats: int = 7, turns: int = 3) -> Groups:
    batch = load("desk").experiment("desk_rtm").recipe.training.batch
    targets = alone(steps, repeats)
    runs = [[alone(steps_with_memory, kept, repeats) for kept in (True, False)] for _ in range(turns)]
    (kept, most), (given_back, least) = (
        map(statistics.median, zip(*each, strict=True)) for each in zip(*runs, strict=True)
    )
    return {
        "RS-IMLE training at the desk's configuration, images/s": {
            **{name: batch / seconds for name, seconds in targets.items()},
            "memory kept, as in training": batch / kept,
            "memory given back": batch / given_back,
        },
        "RS-IMLE, most memory, MB": {"kept": most, "given back": least},
        "RS-IMLE ratios": {
            "step, target maps computed again / kept": targets["computed again"] / targets["kept"],
            "step, memory given back / kept": given_back / kept,
        },
    }


if __name__ == "__main__":
    show(measure())
