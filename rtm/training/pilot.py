"""`rtm train --pilot`: find the rejection radius whose matched samples are most similar to samples at test time
(RS-IMLE, Sec. 3.1)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from rtm.core.errors import UserError
from rtm.core.progress import track
from rtm.methods.base import Setting
from rtm.methods.registry import build_method


@dataclass(frozen=True)
class Radius:
    """A value of `imle.epsilon`, and means over the second half of the matching rounds of its training."""

    epsilon: float
    radius: float
    rejected: float
    gap: float


def pilot(setting: Setting, epsilons: Iterable[float], steps: int) -> Iterator[Radius]:
    """Train from the beginning with each value of epsilon; nothing else in the experiment changes."""
    experiment = setting.experiment
    imle = experiment.recipe.imle
    if imle is None:
        raise UserError(f"{experiment.name} is not trained by RS-IMLE; choose an experiment whose recipe has imle.")
    for epsilon in epsilons:
        recipe = experiment.recipe.model_copy(update={"imle": imle.model_copy(update={"epsilon": epsilon})})
        method = build_method(replace(setting, experiment=replace(experiment, recipe=recipe)))
        rounds: dict[float, dict[str, float]] = {}
        for step in track(range(steps), f"pilot {experiment.name} epsilon {epsilon:g}", steps):
            numbers = {name: float(value) for name, value in method.step(step).items()}
            rounds[numbers["rounds"]] = numbers
        later = list(rounds.values())[len(rounds) // 2 :]
        means = {name: fmean(row[name] for row in later) for name in ("epsilon", "rejected", "matched_gap")}
        yield Radius(epsilon, means["epsilon"], means["rejected"], means["matched_gap"])


def advice(radii: Sequence[Radius], experiment: str) -> str:
    """A sentence that names the value with the smallest gap, if several values were tried."""
    if len(radii) == 1:
        return f"The gap of one value says little; compare it with others (--pilot {radii[0].epsilon:g} ...)."
    least = min(radii, key=lambda radius: radius.gap)
    return f"The gap is least at `epsilon: {least.epsilon:g}`; write it under imle of the recipe of {experiment}."
