"""`rtm doctor` prints a line for each part that works or does not."""

import pytest
from support.command import rtm

from rtm.cli import doctor
from rtm.plan.machine import Finding


def test_the_doctor_names_what_to_do() -> None:
    answer = rtm("doctor")
    assert answer.returncode == 0
    for subject in ("GPU", "inception", "vgg16", "dinov2", "data", "LaTeX", "SLURM", "DVC"):
        assert subject in answer.stdout


def test_brackets_in_an_advice_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Messages of libraries contain brackets."""
    doctor.show([Finding("gloo", False, "RuntimeError: [enforce fail at pair.cc] [/tmp/x] refused")])
    assert capsys.readouterr().out == "no   gloo        RuntimeError: [enforce fail at pair.cc] [/tmp/x] refused\n"


def test_one_line_says_whether_it_works(capsys: pytest.CaptureFixture[str]) -> None:
    doctor.show([Finding("GPU", True, "one"), Finding("vgg16", None, "lacks x"), Finding("SLURM", False, "none")])
    assert capsys.readouterr().out == "yes  GPU         one\npart vgg16       lacks x\nno   SLURM       none\n"
