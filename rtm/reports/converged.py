"""Whether trainings had converged: how far the FID measured during training moved in the last fifth."""

from collections.abc import Iterable, Iterator

from rtm.config import Config
from rtm.core.files import read_numbers
from rtm.core.layout import Layout

LAST = 0.2  # share of a training
BOUND = 0.05  # share of the last FID


def moved(curve: Iterable[dict[str, float]]) -> float | None:
    """The largest distance from the last FID in the last fifth, relative to the last FID; None if there are fewer than
    two measurements."""
    seen = [(row["step"], row["fid"]) for row in curve if "fid" in row]
    late = [fid for step, fid in seen if step >= (1 - LAST) * seen[-1][0]]
    return max(abs(fid - late[-1]) for fid in late) / late[-1] if len(late) > 1 and late[-1] > 0 else None


def convergence(config: Config, layout: Layout, names: Iterable[str]) -> Iterator[str]:
    """A sentence about the trainings of a comparison, from their curves."""
    found: dict[str, float] = {}
    for name in names:
        paths = [layout.curve(name, seed) for seed in config.experiment(name).seeds]
        shares = (moved(read_numbers(path)) for path in paths if path.exists())
        if known := [share for share in shares if share is not None]:
            found[name] = max(known)
    if not found:
        return
    worst = max(found, key=lambda name: found[name])
    late = {name: share for name, share in found.items() if share > BOUND}
    said = "FID on the way, in the last fifth of the training, was at most"
    if not late:
        yield f"{said} {found[worst]:.1%} from its end ({worst}): the trainings had converged."
    else:
        some = ", ".join(f"{name} {share:.1%}" for name, share in late.items())
        yield f"Not converged: {said} {found[worst]:.1%} from its end; above {BOUND:.0%} are {some}."
