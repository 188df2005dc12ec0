"""`rtm try` on a small folder: Ctrl-C stops it, a second call resumes it and makes pictures, a third has nothing to
do."""

import argparse
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console
from support.trials import with_light_trainings, with_pictures
from support.waiting import tail, wait_for, wait_for_end
from support.workspace import copied, environment, run

from rtm.cli import trying
from rtm.cli.main import main
from rtm.core.errors import UserError

slow = pytest.mark.slow(seconds=16)  # five tests share it
WORDS = ("rtm", "try", "pictures", "--name", "small", "--pictures")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = with_light_trainings(with_pictures(copied(tmp_path_factory.mktemp("try"))))
    (folder / "pictures/broken.jpg").write_bytes(b"x")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def stopped(workspace: Path) -> str:
    """The output until Ctrl-C, which comes as soon as both trainings run."""
    (workspace / "held").touch()
    with open(workspace / "out.txt", "w", encoding="utf-8") as file:
        words = [*WORDS, "--epochs", "8"]
        process = subprocess.Popen(
            words,
            cwd=workspace,
            env=environment(workspace),
            stdout=file,
            stderr=file,
            start_new_session=True,
            # background jobs of a shell ignore SIGINT
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

        def progress() -> str:
            return tail(workspace / "out.txt") + tail(workspace / "try/small/logs/try/snakemake.log")

        def begun() -> bool:
            assert process.poll() is None, progress()
            return len(list(workspace.glob("try/small/runs/*/*/log.jsonl"))) == 2

        wait_for(begun, progress)
        os.killpg(process.pid, signal.SIGINT)
        (workspace / "held").unlink()
        assert wait_for_end(process, progress) == 130, progress()
    return (workspace / "out.txt").read_text("utf-8")


@pytest.fixture(scope="module")
def finished(workspace: Path, stopped: str) -> str:
    return run(workspace, *WORDS, "--epochs", "8")  # the very same command


@slow
def test_it_says_what_it_will_take(stopped: str) -> None:
    for part in ("Left out, since they cannot be read: broken.jpg.", "16 at 32 x 32 px", "26 steps of 5 images each"):
        assert part in stopped
    assert " of training, measured on this machine just now" in stopped
    assert "try/small/reports/index.html" in stopped


@slow
def test_it_stops_with_everything_saved(workspace: Path, stopped: str) -> None:
    assert "the same command goes on" in stopped
    assert "Traceback" not in stopped
    assert len(list(workspace.glob("try/small/runs/*/*/state.pt"))) == 2
    assert not list(workspace.glob("try/small/checkpoints/*/*"))


@slow
def test_it_goes_on_and_ends_with_pictures(workspace: Path, finished: str) -> None:
    assert "Going on with try/small/params.yaml" in finished
    grids = [line.strip() for line in finished.splitlines() if line.strip().endswith(".png")]
    assert len(grids) == 2
    for path in grids:
        with Image.open(workspace / path) as image:
            assert image.size == (256, 256)
    for mapper in ("mlp", "rtm"):
        assert f"rtm generate try/small/small_{mapper}\n" in finished
        assert (workspace / f"try/small/checkpoints/small_{mapper}/seed0.safetensors").exists()
    log = next(workspace.glob("try/small/runs/small_rtm/*/log.jsonl")).read_text("utf-8")
    assert log.count('"step": 1,') == 1  # the first step was not repeated


@pytest.fixture
def here(workspace: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The output of a command in the workspace. It runs in this process, which has already imported everything."""
    monkeypatch.chdir(workspace)
    for name, value in environment(workspace).items():
        monkeypatch.setenv(name, value)

    def call(*words: str) -> str:
        monkeypatch.setattr("sys.argv", list(words))
        main()
        printed = capfd.readouterr()
        return printed.out + printed.err

    return call


@slow
def test_it_is_an_experiment_like_any_other(finished: str, here: Callable[..., str]) -> None:
    assert "2 done" in here("rtm", "status", "--scale", "try/small")
    assert "fresh" in here("rtm", "lineage", "why", "try/small/train/small_rtm")
    assert here("rtm", "report", "--scale", "try/small").strip() == "try/small/reports/index.html"


@slow
def test_it_can_be_prepared_alone(finished: str, here: Callable[..., str]) -> None:
    printed = here(*WORDS, "--prepare")
    assert printed.splitlines()[-1].startswith("Prepared; on a cluster: snakemake --profile slurm try/small/reports/")


@slow
def test_a_second_call_has_nothing_to_train(workspace: Path, finished: str, here: Callable[..., str]) -> None:
    checkpoints = {path: path.stat().st_mtime_ns for path in workspace.glob("try/small/checkpoints/*/*")}
    here(*WORDS)
    assert checkpoints == {path: path.stat().st_mtime_ns for path in workspace.glob("try/small/checkpoints/*/*")}


def asked(**given: object) -> argparse.Namespace:
    blank: dict[str, object] = dict.fromkeys(("source", "name", "minutes", "epochs", "resolution", "export"))
    return argparse.Namespace(
        **{
            **blank,
            "pictures": True,
            "prepare": False,
            **given,
        }
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "Name a folder of images: rtm try FOLDER"),
        ({"source": Path("cats"), "name": "My cats"}, "'My cats' cannot name a trial"),
        ({"source": Path("cats"), "minutes": -1.0}, "--minutes is -1.0; give a number above 0"),
        ({"source": Path("cats"), "minutes": 1.0, "epochs": 3}, "Give --minutes or --epochs, not both"),
        ({"export": "dogs"}, "There is no trial 'dogs'"),
    ],
)
def test_a_mistake_is_one_sentence(given: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as error:
        trying.try_folder(asked(**given))
    assert message in str(error.value)


def test_mistakes_in_the_parameters_come_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="no folder params; run from the root"):
        trying.try_folder(asked(source=Path("cats")))
    assert not list(tmp_path.iterdir())


def test_without_the_network_of_the_metrics_there_are_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(_: str) -> None:
        raise UserError("No source gave Inception.")

    monkeypatch.setattr(trying, "_fetch", unreachable)
    console = Console(record=True)
    assert not trying._can_measure(console)
    assert "Without numbers, only pictures: No source gave Inception." in console.export_text()
