"""A submission is repeated while SLURM's controller is away, and no job is submitted twice."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from rtm.pipeline import submit

WORDS = ["--parsable", "--job-name", "train.x.0", "--comment", "rule_train", "--wrap=true"]


AWAY = "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)"


def test_a_submission_is_repeated_while_the_controller_is_away(
    programs: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(submit, "PAUSE", 0.01)
    programs(sbatch=f"echo >> asked; [ $(wc -l < asked) -lt 3 ] || exec echo 17\necho '{AWAY}' >&2; exit 1", squeue=":")
    (tmp_path / "shown").touch()
    assert submit.submit(WORDS, str(tmp_path / "shown")) == 0
    assert capfd.readouterr().out == "17\n"
    assert (tmp_path / "shown").read_text(
        "utf-8"
    ) == 2 * "SLURM's controller does not answer; the submission is repeated.\n"
    programs(sbatch="echo 'sbatch: error: invalid partition' >&2; exit 3")
    assert submit.submit(WORDS) == 3
    monkeypatch.setattr(submit, "PATIENCE", 0.0)
    programs(sbatch=f"echo '{AWAY}' >&2; exit 1")
    assert submit.submit(WORDS) == 1


def test_a_job_that_was_submitted_after_all_is_not_submitted_twice(
    programs: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(submit, "PAUSE", 0.01)
    now = datetime.now()
    before = datetime.now() - timedelta(hours=1)
    rows = "\n".join(
        "\t".join([number, "PENDING", "rule_train", "train.x.0", f"{time:%Y-%m-%dT%H:%M:%S}", "None", str(tmp_path)])
        for number, time in (("8", before), ("9", now))
    )
    late = "echo >> looked; [ $(wc -l < looked) -lt 2 ] && exit 0"  # the job appears after the first answer
    programs(sbatch=f"echo >> asked; echo '{AWAY}' >&2; exit 1", squeue=f"{late}\ncat <<END\n{rows}\nEND")
    assert submit.submit(WORDS) == 0
    assert capfd.readouterr().out == "9\n"
    assert (tmp_path / "asked").read_text("utf-8") == "\n"
