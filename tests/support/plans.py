"""Rehearsals by hand, and the recipes of the paper."""

from collections import Counter
from typing import Any

from support import PARAMS

from rtm.config import load
from rtm.plan.tally import GIB, Rehearsal, Tally

CONFIG = load("paper", PARAMS)
H100 = CONFIG.params.devices["h100"]


def tally(**counts: Any) -> Tally:
    return Tally(kernels=Counter({("bfloat16", 6e12, 10**9): 2, ("", 0.0, 10**6): 3}), peak=2 * GIB, **counts)


def rehearsal(peak: int = 2 * GIB) -> Rehearsal:
    parts = {name: tally() for name in ("step", "decode", "features", "search", "begin", "data")}
    holds = {"parameters": GIB // 4, "EMA": GIB // 4, "optimizer": GIB // 2, "features": GIB // 8}
    return Rehearsal(4, {"step": 1.0}, 10, parts, holds, {"step": peak, "round": GIB}, GIB // 16)
