"""The curves of the trainings show whether a comparison has converged."""

from pathlib import Path

import pytest
from support import ROOT, fake_results

from rtm.config import load
from rtm.core.files import write_text
from rtm.core.layout import Layout
from rtm.reports.converged import convergence, moved

DEMO = load("demo", ROOT / "params")


def curve(*fids: float) -> list[dict[str, float]]:
    """A measurement after every tenth of 100 steps, and rows of the log between them."""
    measured = [{"step": 10.0 * (place + 1), "fid": fid} for place, fid in enumerate(fids)]
    return [row for each in measured for row in ({"step": each["step"] - 5, "loss": 1.0}, each)]


def test_the_widest_distance_from_the_end_in_the_last_fifth() -> None:
    assert moved(curve(900, 500, 300, 200, 150, 120, 110, 104, 110, 100)) == pytest.approx(0.10)
    assert moved(curve(9, 9, 9, 9, 9, 9, 999, 100, 100, 100)) == 0.0  # earlier ones do not count
    assert moved(curve(100)) is None and moved([{"step": 1.0, "loss": 0.1}]) is None


def test_a_sentence_names_what_had_not_converged(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path)
    assert list(convergence(DEMO, layout, ["digits_mlp8"])) == []
    ends = {"digits_mlp8": (103, 102, 100), "digits_rtm": (104, 101, 100)}

    def write(name: str, seed: int, late: tuple[float, ...]) -> None:
        rows = [f"{step},{fid}" for step, fid in zip((80, 90, 100), late, strict=True)]
        write_text(layout.curve(name, seed), "\n".join(["step,fid", *rows]) + "\n")

    for name, late in ends.items():
        for seed in (0, 1, 2):
            write(name, seed, late)
    (said,) = convergence(DEMO, layout, ends)
    assert said.endswith("at most 4.0% from its end (digits_rtm): the trainings had converged.")
    write("digits_mlp8", 1, (130, 110, 100))
    (said,) = convergence(DEMO, layout, ends)
    assert said.startswith("Not converged") and said.endswith("above 5% are digits_mlp8 30.0%.")


def test_a_damaged_curve_is_a_sentence(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path)
    fake_results.write_curves(DEMO, layout, "digits_mlp8")
    layout.curve("digits_mlp8", 1).write_text("step,fid\n1,x\n")
    with pytest.raises(Exception, match="is damaged"):
        list(convergence(DEMO, layout, ["digits_mlp8"]))
