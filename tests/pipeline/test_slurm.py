"""Commands sent to SLURM, and the handling of its answers."""

import time
from pathlib import Path

import pytest

from rtm.config.experiments import Resources
from rtm.core.errors import UserError
from rtm.pipeline import slurm

ASKED = Resources(gpus=4, cpus=32, mem_gb=128, hours=336)


@pytest.mark.parametrize(
    ("gres", "model", "count"),
    [
        ("gpu:h100:8(S:0-1)", "h100", 8),
        ("gpu:H100:4", "h100", 4),
        ("gpu:8", "h100", 8),
        ("gpu:a100:8", "h100", 0),
        ("gpu:a100:8", "", 8),
        ("gpu:a100:2,gpu:h100:2,shard:8", "h100", 2),
        ("(null)", "h100", 0),
    ],
)
def test_gpus_of_a_node(gres: str, model: str, count: int) -> None:
    assert slurm._gpus(gres, model) == count


def test_one_node_must_have_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [["gpu:h100:4", "16", "512000"], ["(null)", "128", "1024000"]]
    monkeypatch.setattr(slurm, "_nodes", lambda: nodes)
    with pytest.raises(UserError, match=r"no node has that \(the largest: 4 GPUs, 16 cores, 512 GB\)"):
        slurm.refuse_impossible("train/x", ASKED, "h100")
    nodes.append(["gpu:h100:4(S:0)", "64+", "512000+"])
    slurm.refuse_impossible("train/x", ASKED, "h100")
    with pytest.raises(UserError, match="gpu_model"):
        slurm.refuse_impossible("train/x", ASKED, "nvidia_h100")
    nodes.clear()  # sinfo gave no answer
    slurm.refuse_impossible("train/x", ASKED, "h100")


def test_only_a_running_job_is_requeued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    squeue, scontrol = tmp_path / "squeue", tmp_path / "scontrol"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    for program in (squeue, scontrol):
        program.write_text("#!/bin/sh\necho COMPLETING\n")
        program.chmod(0o755)
    assert not slurm.requeue()
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert not slurm.requeue()  # cancelled
    squeue.write_text("#!/bin/sh\necho RUNNING\n")
    assert slurm.requeue()
    scontrol.write_text("#!/bin/sh\nexit 1\n")
    assert not slurm.requeue()  # SLURM refuses


def test_the_request_is_repeated_while_the_controller_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    squeue, scontrol = tmp_path / "squeue", tmp_path / "scontrol"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(slurm, "PAUSE", 0.01)
    away = "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1\n"
    back = f"#!/bin/sh\necho >> {tmp_path}/asked\n[ $(wc -l < {tmp_path}/asked) -lt 3 ] || exec echo RUNNING\n{away}"
    for program, text in ((squeue, back), (scontrol, "#!/bin/sh\n")):
        program.write_text(text)
        program.chmod(0o755)
    assert slurm.requeue()
    (tmp_path / "asked").unlink()
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 70))  # there is no time left to wait
    assert not slurm.requeue() and (tmp_path / "asked").read_text() == "\n"
