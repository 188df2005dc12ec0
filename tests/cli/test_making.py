"""The verbs from data to metrics, on a variant, which is never mistaken for its experiment."""

from contextlib import chdir
from pathlib import Path

import pytest
from support import PARAMS
from support.smoke_workspace import fetch

from rtm.cli.main import _parser
from rtm.config import load
from rtm.core.errors import UserError
from rtm.core.files import read_json
from rtm.lineage.receipts import Ledger
from rtm.pipeline.graph import every_job

NAME = "digits_rtm+imle.pool=2+sweep=[]+training.epochs=1"
AT = Path("variants/demo")


def rtm(*words: str) -> None:
    arguments, rest = _parser().parse_known_args(words)
    if rest:
        arguments.changes += rest
    arguments.call(arguments)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("variant")
    (folder / "params").symlink_to(PARAMS)
    with chdir(folder):
        fetch(load("demo"), "digits300", "digits_rest")
        rtm("reference", "digits300", "digits", "--scale", "demo")
        rtm("train", "digits_rtm", "--scale", "demo", "training.epochs=1", "sweep=[]", "imle.pool=2")
        for verb in ("sample", "evaluate", "latency"):
            rtm(verb, "digits_rtm+training.epochs=1+sweep=[]+imle.pool=2", "--scale", "demo")  # in any order
    return folder


@pytest.mark.slow(seconds=20)
def test_it_is_measured_under_its_own_name(folder: Path) -> None:
    measured = read_json(folder / AT / f"results/{NAME}/digits/seed0.json")
    assert measured["experiment"] == NAME and measured["metrics"]["native"]["fid"] > 0
    assert read_json(folder / AT / f"results/{NAME}/latency.json")["mapper_parameters"] > 0
    with chdir(folder), pytest.raises(UserError, match=r"Begin with `rtm train '.*' --scale demo --seed 1`"):
        rtm("summary", NAME, "--scale", "demo")  # a summary needs all seeds


@pytest.mark.slow(seconds=1)
def test_it_is_never_taken_for_its_experiment(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with chdir(folder):
        assert not [job for job in every_job().values() if job.subject.experiment and job.receipt.exists()]
        assert not Ledger().fresh(every_job()["demo/train/digits_rtm/seed0"])
        rtm("status", "--scale", "demo")
    assert NAME not in capsys.readouterr().out and not (folder / "demo").exists()


@pytest.mark.slow(seconds=1)
def test_its_lineage_is_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with chdir(folder):
        rtm("lineage", "why", f"{AT}/train/{NAME}/seed0", f"{AT}/lineage/latency/{NAME}.json")
        rtm("lineage", f"{AT}/checkpoints/{NAME}/seed0.safetensors")
    why, trained, *_ = capsys.readouterr().out.splitlines()
    assert (
        why == f"{AT}/train/{NAME}/seed0, {AT}/latency/{NAME}: fresh" and trained == f"{AT}/train/{NAME}/seed0: fresh"
    )


@pytest.mark.slow(seconds=1)
def test_it_draws(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with chdir(folder):
        rtm("generate", f"demo/{NAME}", "--count", "2")
    assert capsys.readouterr().out.strip().startswith("generated/digits_rtm+")


@pytest.mark.slow(seconds=1)
def test_a_pilot_prints_a_line_for_each_radius_and_its_advice(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with chdir(folder):
        rtm("pilot", "digits_rtm", "--scale", "demo", "--steps", "2", "--epsilon", "0", "0.5")
    head, first, second, advice = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["epsilon", "radius", "rejected", "gap"] and head.endswith("after 2 steps of digits_rtm")
    assert [line.split()[0] for line in (first, second)] == ["0", "0.5"] and "digits_rtm" in advice
