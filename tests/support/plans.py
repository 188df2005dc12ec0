"""Costs by hand, and the recipes of the paper."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import PARAMS

from rtm.config import Experiment, load
from rtm.plan import planner
from rtm.plan.tally import GIB, Cost, Tally

CONFIG = load("paper", PARAMS)
H100 = CONFIG.params.devices["h100"]


def tally(peak: int = 2 * GIB, **counts: Any) -> Tally:
    return Tally(kernels=Counter({("bfloat16", 6e12, 10**9): 2, ("", 0.0, 10**6): 3}), peak=peak, **counts)


def cost(peak: int = 2 * GIB) -> Cost:
    parts = {name: tally(GIB) for name in ("decode", "features", "search", "begin")}
    holds = {"parameters": GIB // 4, "EMA": GIB // 4, "optimizer": GIB // 2, "features": GIB // 8}
    return Cost(4, {"step": 1.0}, {"step": tally(peak), **parts}, holds)


def without_rehearsals(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[str]:
    """Replace rehearsals by a constant, kept in the folder; return the experiments that would be rehearsed."""
    rehearsed: list[str] = []

    class Here:
        """A pool of processes that is this process."""

        def __init__(self, *_: Any) -> None: ...

        def __enter__(self) -> "Here":
            return self

        def __exit__(self, *_: Any) -> None: ...

        def submit(self, call: Any, *arguments: Any) -> Any:
            from concurrent.futures import Future

            result = Future[Cost]()
            result.set_result(call(*arguments))
            return result

    def constant(experiment: Experiment, world: int) -> Cost:
        rehearsed.append(experiment.name)
        return cost()

    monkeypatch.setattr(planner, "ProcessPoolExecutor", Here)
    monkeypatch.setattr(planner, "_cost", constant)
    monkeypatch.setattr(planner, "FOLDER", folder)
    return rehearsed
