"""`rtm plan`: one experiment, all of a table, or all, in 80 columns, with the warnings below."""

from argparse import Namespace
from pathlib import Path

import pytest
from support.plans import CONFIG, without_rehearsals

from rtm.cli import plan as plan_cli
from rtm.core.errors import UserError


@pytest.fixture(autouse=True)
def _constant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_rehearsals(monkeypatch, tmp_path)


def show(name: str | None, gpu: str | None = None) -> None:
    plan_cli.plan(Namespace(scale="paper", name=name, gpu=gpu, gpus=None))


@pytest.mark.parametrize("name", [None, "tab_cifar10", "cifar10_imle_rtm"])
def test_it_is_printed_in_80_columns(
    name: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    show(name)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert "cifar10_imle_rtm" in printed
    if name != "cifar10_imle_rtm":
        assert "GPU-hours of all" in printed


def test_a_table_has_its_experiments_each_once(capsys: pytest.CaptureFixture[str]) -> None:
    show("tab_cifar10")
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("cifar10_")]
    assert sorted(names) == sorted(CONFIG.tables["tab_cifar10"].experiments())
    assert len(names) == len(set(names))


def test_another_gpu_takes_other_hours(capsys: pytest.CaptureFixture[str]) -> None:
    hours = []
    for gpu in ("h100", "a100"):
        show("cifar10_imle_rtm", gpu)
        title, *lines = capsys.readouterr().out.splitlines()
        assert CONFIG.params.devices[gpu].title in title
        (planned,) = (line for line in lines if line.startswith("Planned"))
        assert planned.endswith("asked for 4 x 140.")
        hours.append(float(planned.split(" x ")[1].split()[0]))
    assert hours[0] < hours[1]


def test_an_unknown_name_is_neither_experiment_nor_table() -> None:
    with pytest.raises(UserError, match="There is no experiment or table named 'tab_cifar'"):
        show("tab_cifar")
