"""A training's way back into SLURM's queue, and the place where its nodes meet."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rtm.training import cluster
from rtm.training.cluster import meeting_place, node_count, requeue

Install = Callable[[str, str], None]
AWAY = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """A function that writes a command of SLURM: its name and a line of shell."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_JOB_ID", "7")

    def write(name: str, line: str) -> None:
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{line}\n", "utf-8")
        program.chmod(0o755)

    return write


@pytest.mark.parametrize(
    ("state", "answer", "is_requeued"),
    [
        ("echo RUNNING", "exit 0", True),
        ("echo COMPLETING", "exit 0", False),  # the job was cancelled
        ("echo RUNNING", "exit 1", False),  # SLURM refuses
    ],
)
def test_only_a_running_job_is_requeued(
    install: Install,
    state: str,
    answer: str,
    is_requeued: bool,
) -> None:
    install("squeue", state)
    install("scontrol", answer)
    assert requeue() == is_requeued


def test_a_training_outside_of_slurm_is_not_requeued(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("squeue", "echo RUNNING")
    install("scontrol", "exit 0")
    monkeypatch.delenv("SLURM_JOB_ID")
    assert not requeue()


def test_the_request_is_repeated_while_the_controller_is_away(
    install: Install,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests = tmp_path / "requests"
    third_time = f"[ $(wc -l < {requests}) -lt 3 ] || exec echo RUNNING"
    monkeypatch.setattr(cluster, "PAUSE", 0.01)
    install("squeue", f"echo >> {requests}\n{third_time}\necho '{AWAY}' >&2; exit 1")
    install("scontrol", "exit 0")
    assert requeue()
    requests.unlink()
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 70))  # no time is left for waiting
    assert not requeue()
    assert requests.read_text("utf-8") == "\n"


def test_the_processes_of_several_nodes_meet_at_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_STEP_NUM_NODES", raising=False)
    assert node_count() == 1
    assert meeting_place()["rdzv_endpoint"] == "localhost:0"
    variables = {
        "SLURM_STEP_NUM_NODES": "2",
        "SLURM_JOB_ID": "123456",
        "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1",
        "SLURMD_NODENAME": "node2",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    places = []
    for node in ("0", "1"):
        monkeypatch.setenv("SLURM_NODEID", node)
        places.append(meeting_place())
    first, second = places
    assert (first["min_nodes"], first["max_nodes"], first["run_id"]) == (2, 2, "123456")
    assert first["rdzv_endpoint"] == second["rdzv_endpoint"] == "10.0.0.1:23456"
    assert first["rdzv_configs"] == {"is_host": True}
    assert second["rdzv_configs"] == {"is_host": False}


def test_another_node_leaves_the_request_to_the_first(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("squeue", "exit 1")
    monkeypatch.setenv("SLURM_NODEID", "1")
    assert requeue()
