"""The curves of the trainings show whether a comparison has converged."""

from pathlib import Path

import pytest
from support.reports import DEMO

from rtm.core.errors import UserError
from rtm.core.files import write_text
from rtm.reports.converged import convergence, moved
from rtm.stages.train import Train


def curve(*fids: float) -> list[dict[str, float]]:
    """A measurement after every tenth of 100 steps, and rows of the log between them."""
    rows = []
    for place, fid in enumerate(fids, 1):
        rows += [{"step": 10.0 * place - 5, "loss": 1.0}, {"step": 10.0 * place, "fid": fid}]
    return rows


def test_the_widest_distance_from_the_end_in_the_last_fifth() -> None:
    assert moved(curve(900, 500, 300, 200, 150, 120, 110, 104, 110, 100)) == pytest.approx(0.10)
    assert moved(curve(9, 9, 9, 9, 9, 9, 999, 100, 100, 100)) == 0.0  # earlier ones do not count
    assert moved(curve(100)) is None
    assert moved([{"step": 1.0, "loss": 0.1}]) is None


def test_a_sentence_names_what_had_not_converged(tmp_path: Path) -> None:
    config = DEMO.at(tmp_path)
    ends = {"digits_mlp8": (103, 102, 100), "digits_rtm": (104, 101, 100)}
    assert list(convergence(config, ends)) == []

    def write(name: str, seed: int, fids: tuple[int, ...]) -> None:
        lines = [f"{step},{fid}" for step, fid in zip((80, 90, 100), fids, strict=True)]
        write_text(Train().path(config, "curve", experiment=name, seed=seed), "\n".join(["step,fid", *lines]) + "\n")

    for name, fids in ends.items():
        for seed in (0, 1, 2):
            write(name, seed, fids)
    (sentence,) = convergence(config, ends)
    assert sentence.endswith("at most 4.0% from its end (digits_rtm): the trainings had converged.")
    write("digits_mlp8", 1, (130, 110, 100))
    (sentence,) = convergence(config, ends)
    assert sentence.startswith("Not converged")
    assert sentence.endswith("above 5% are digits_mlp8 30.0%.")
    write_text(Train().path(config, "curve", experiment="digits_mlp8", seed=1), "step,fid\n1,x\n")
    with pytest.raises(UserError, match="is damaged"):
        list(convergence(config, ends))
