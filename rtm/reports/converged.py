"""Whether trainings had converged: how far the FID measured during training moved in the last fifth."""

from collections.abc import Iterable, Iterator

from rtm.config import Config
from rtm.core.readers import read_numbers
from rtm.stages.train import Train

LAST = 0.2  # share of a training
BOUND = 0.05  # share of the last FID


def moved(curve: Iterable[dict[str, float]]) -> float | None:
    """The largest distance from the last FID in the last fifth, relative to the last FID; None if there are fewer than
    two measurements."""
    fids = {row["step"]: row["fid"] for row in curve if "fid" in row}
    if not fids:
        return None
    last = max(fids)
    end = fids[last]
    late = [fid for step, fid in fids.items() if step >= (1 - LAST) * last]
    if len(late) < 2 or end <= 0:
        return None
    return max(abs(fid - end) for fid in late) / end


def convergence(config: Config, names: Iterable[str]) -> Iterator[str]:
    """A sentence about the trainings of a comparison, from their curves."""
    distances: dict[str, float] = {}
    for name in names:
        for seed in config.experiment(name).seeds:
            path = Train().path(config, "curve", experiment=name, seed=seed)
            distance = moved(read_numbers(path)) if path.exists() else None
            if distance is not None:
                distances[name] = max(distance, distances.get(name, 0))
    if not distances:
        return
    worst = max(distances, key=lambda name: distances[name])
    sentence = f"FID on the way, in the last fifth of the training, was at most {distances[worst]:.1%} from its end"
    late = [f"{name} {distance:.1%}" for name, distance in distances.items() if distance > BOUND]
    if late:
        yield f"Not converged: {sentence}; above {BOUND:.0%} are {', '.join(late)}."
    else:
        yield f"{sentence} ({worst}): the trainings had converged."
