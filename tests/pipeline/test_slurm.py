"""Snakemake's executor for SLURM is improved: names, messages and submissions of jobs."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import PARAMS

from rtm.config import load
from rtm.pipeline.slurm import comment, improve_executor, job_name, queued
from rtm.stages.evaluate import Evaluate


class Submitted(SimpleNamespace):
    def is_group(self) -> bool:
        return hasattr(self, "groupid")


def test_names_of_jobs_say_stage_and_experiment() -> None:
    training = Submitted(name="train", wildcards=["smoke/", "cifar10_imle_rtm", "0"])
    assert job_name(None, training) == "train.smoke.cifar10_imle_rtm.0"
    assert job_name("mine", Submitted(groupid="measure_obama_imle_mlp_seed0")) == "mine.measure_obama_imle_mlp_seed0"


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stand-in for the executor's module."""

    class Reporting:
        def report_job_error(self, info: Any, msg: str, **_: Any) -> None:
            messages.append(msg)

    messages: list[str] = []
    made = SimpleNamespace(
        get_min_job_age=iter([None, 300, None]).__next__,
        get_submit_command=lambda job, params, **_: f"sbatch --parsable --job-name {params['run_uuid']} -t 5000",
        query_job_status_squeue=lambda run: f"squeue --states=all --name {run}",
        query_job_status_sacct=lambda run: f"sacct --endtime now --name {run}",
        Executor=Reporting,
        messages=messages,
    )
    monkeypatch.setitem(sys.modules, "snakemake_executor_plugin_slurm", made)
    return made


def test_the_executor_is_completed(plugin: Any, programs: Callable[..., None]) -> None:
    programs(
        scontrol="echo 'JobId=7 JobState=OUT_OF_MEMORY Reason=OutOfMemory ExitCode=0:125 NodeList=node'", squeue=":"
    )
    exhausted = improve_executor(walltime=1440)
    assert [plugin.get_min_job_age() for _ in range(3)] == [None, 300, 300]
    assert "--name" not in plugin.query_job_status_squeue("abc") + plugin.query_job_status_sacct("abc")
    one = Submitted(
        name="train", rule=SimpleNamespace(name="train"), wildcards=["", "x", "0"], resources={"mem_mb": 4000}
    )
    group = Submitted(groupid="measure_x_seed0", jobs=[one])
    params = {"run_uuid": "abc", "comment_str": "rule_train"}
    call = plugin.get_submit_command(one, params)
    assert f"-m rtm.pipeline.submit /proc/{os.getpid()}/fd/2 --parsable --job-name train.x.0 -t 5000" in call
    assert "sbatch" not in call
    assert "-t 1440" in plugin.get_submit_command(group, params)
    plugin.Executor().report_job_error(SimpleNamespace(job=one, external_jobid="7"), msg="SLURM-job '7' failed. ")
    assert plugin.messages == [
        "SLURM-job '7' failed. SLURM says: JobState OUT_OF_MEMORY, Reason OutOfMemory, ExitCode 0:125, NodeList node. "
        "It ran out of its 4000 MB; the next attempt asks for twice that, or for all of a node."
    ]
    assert exhausted == {"rule_train_wildcards__x_0": 1}


@pytest.mark.parametrize(
    ("line", "is_memory"),
    [
        ("slurmstepd-node: error: StepId=1.batch exceeded memory limit (151937024 > 104857600), being killed", True),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the tasks have been OOM Killed.", True),
        ("srun: error: node: task 0: Out Of Memory", True),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", False),
        ("srun: error: node: task 0: Exited with exit code 1", False),
    ],
)
def test_a_node_may_tell_of_memory_where_the_state_does_not(
    plugin: Any, programs: Callable[..., None], tmp_path: Path, line: str, is_memory: bool
) -> None:
    """For example without cgroups, or if SLURM ended a step of the job and not the job."""
    programs(scontrol="echo 'JobId=7 JobState=FAILED Reason=NonZeroExitCode'")
    exhausted = improve_executor(walltime=None)
    job = Submitted(rule=SimpleNamespace(name="train"), wildcards=["", "x", "0"], resources={"mem_mb": 4000})
    (tmp_path / "7.log").write_text(f"some output\n{line}\nmore\n", "utf-8")
    logs = [str(tmp_path / "7.log"), None, str(tmp_path / "absent.log")]
    plugin.Executor().report_job_error(SimpleNamespace(job=job, external_jobid="7"), msg="failed. ", aux_logs=logs)
    assert ("It ran out of its 4000 MB" in plugin.messages[0]) is is_memory
    assert bool(exhausted) is is_memory


def row(number: int, text: str, folder: object) -> str:
    return "\t".join([str(number), "PENDING", text, "train.x.0", "2026-01-01T00:00:00", "None", str(folder)])


def test_a_group_waits_for_its_earlier_copy(plugin: Any, programs: Callable[..., None], tmp_path: object) -> None:
    rows = "\n".join([row(8, "rule_a", tmp_path), row(9, "rule_b", tmp_path), row(10, "rule_a", "/elsewhere")])
    programs(squeue=f"cat <<END\n{rows}\nEND")
    assert [job.id for job in queued()] == ["8", "9"]
    improve_executor(walltime=None)
    group = Submitted(groupid="measure_x_seed0", jobs=[])
    call = plugin.get_submit_command(group, {"run_uuid": "abc", "comment_str": "rule_a"})
    assert call.endswith("-t 5000 --dependency=afterany:8")


def test_without_the_plugin_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "snakemake_executor_plugin_slurm", raising=False)
    improve_executor(walltime=None)
    assert "snakemake_executor_plugin_slurm" not in sys.modules


def test_the_comment_of_a_job_is_that_of_snakemake() -> None:
    job = Evaluate().job(load("demo", PARAMS), experiment="digits_rtm", protocol="digits", seed=1)
    assert comment(job) == "rule_evaluate_wildcards_demo__digits_rtm_digits_1"
