"""Rehearsals by hand, and the recipes of the paper."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import PARAMS

from rtm.config import Experiment, load
from rtm.core.files import write_json
from rtm.plan import plan as planning
from rtm.plan.plan import Planner
from rtm.plan.tally import GIB, Rehearsal, Tally

CONFIG = load("paper", PARAMS)
H100 = CONFIG.params.devices["h100"]


def tally(**counts: Any) -> Tally:
    return Tally(kernels=Counter({("bfloat16", 6e12, 10**9): 2, ("", 0.0, 10**6): 3}), peak=2 * GIB, **counts)


def rehearsal(peak: int = 2 * GIB) -> Rehearsal:
    parts = {name: tally() for name in ("step", "decode", "features", "search", "begin", "data")}
    holds = {"parameters": GIB // 4, "EMA": GIB // 4, "optimizer": GIB // 2, "features": GIB // 8}
    return Rehearsal(4, {"step": 1.0}, 10, parts, holds, {"step": peak, "round": GIB}, GIB // 16)


def without_rehearsals(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[str]:
    """Replace rehearsals by a constant, cached in the folder; return the experiments that would be rehearsed."""
    called: list[str] = []

    def rehearsed(self: Planner, missing: dict[str, Experiment]) -> dict[str, Rehearsal]:
        called.extend(experiment.name for experiment in missing.values())
        found = {
            key: rehearsal() if each.recipe.imle else replace(rehearsal(), chunks=0) for key, each in missing.items()
        }
        for key, each in found.items():
            write_json(planning._file(key), each.to_json())
        return found

    monkeypatch.setattr(Planner, "_rehearsed", rehearsed)
    monkeypatch.setattr(planning, "KEPT", folder)
    return called
