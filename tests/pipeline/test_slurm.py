"""Commands sent to SLURM, and the handling of its answers."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rtm.config.experiments import Resources
from rtm.core.errors import UserError
from rtm.pipeline import slurm
from rtm.pipeline.slurm import Executor, Site, job_name, largest_memory

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
    assert not slurm.requeue()  # the job was cancelled
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
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 70))  # no time is left for waiting
    assert not slurm.requeue() and (tmp_path / "asked").read_text() == "\n"


@pytest.mark.parametrize(
    ("limit", "minutes"),
    [("1-00:00:00", 1440), ("2-12", 3600), ("24:00:00", 1440), ("30:00", 30), ("45", 45), ("infinite", float("inf"))],
)
def test_limits_of_partitions_are_minutes(limit: str, minutes: float) -> None:
    assert slurm._minutes(limit) == minutes


def test_a_site_is_checked_before_anything_is_fetched(programs: Callable[..., None]) -> None:
    programs(sinfo="printf 'main*\\t1-00:00:00\\nlong\\t7-00:00:00\\n'", sacctmgr="printf 'proj\\n'", sbatch="exit 0")
    Site(None, None).check()
    Site("long,main", "Proj").check()
    with pytest.raises(UserError, match=r"no partition nowhere; set slurm_partition .* to one of main, long"):
        Site("nowhere", None).check()
    with pytest.raises(UserError, match=r"no account mine for you; set slurm_account .* to one of proj"):
        Site(None, "mine").check()
    Site(None, None).refuse_long("train/x", 1440)
    Site("long", None).refuse_long("train/x", 5000)
    with pytest.raises(UserError, match=r"train/x asks for 1441 minutes, and partition main allows 1440; set walltime"):
        Site(None, None).refuse_long("train/x", 1441)
    programs(sbatch="echo 'sbatch: error: Invalid account or account/partition combination specified' >&2; exit 1")
    with pytest.raises(UserError, match=r"SLURM refuses slurm_partition main .* Invalid account .*slurm/config\.yaml"):
        Site("main", None).check()


def test_a_cluster_that_does_not_answer_is_refused(programs: Callable[..., None]) -> None:
    programs(sinfo="echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1")
    with pytest.raises(UserError, match="SLURM does not answer"):
        Site(None, None).check()


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
    executor = Executor(walltime=1440)
    assert [plugin.get_min_job_age() for _ in range(3)] == [None, 300, 300]
    assert "--name" not in plugin.query_job_status_squeue("abc") + plugin.query_job_status_sacct("abc")
    one = Submitted(
        name="train", rule=SimpleNamespace(name="train"), wildcards=["", "x", "0"], resources={"mem_mb": 4000}
    )
    group = Submitted(groupid="measure_x_seed0", jobs=[one], resources={"mem_mb": 4000})
    params = {"run_uuid": "abc", "comment_str": "rule_train"}
    call = plugin.get_submit_command(one, params)
    submit = f"-m rtm.pipeline.submit /proc/{os.getpid()}/fd/2 --parsable --job-name train.x.0 -t 5000"
    assert submit in call and "sbatch" not in call
    assert "-t 1440" in plugin.get_submit_command(group, params)
    plugin.Executor().report_job_error(SimpleNamespace(job=one, external_jobid="7"), msg="SLURM-job '7' failed. ")
    assert plugin.messages == [
        "SLURM-job '7' failed. SLURM says: JobState OUT_OF_MEMORY, Reason OutOfMemory, ExitCode 0:125, NodeList node. "
        "It ran out of its 4000 MB; the next attempt asks for twice that, or for all of a node."
    ]
    assert executor.exhausted == {slurm.comment("train", "", "x", "0"): 1}


@pytest.mark.parametrize(
    ("line", "is_memory"),
    [
        ("slurmstepd-node: error: StepId=1.batch exceeded memory limit (151937024 > 104857600), being killed", True),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the tasks have been OOM Killed.",
            True,
        ),
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
    executor = Executor(walltime=1440)
    job = Submitted(rule=SimpleNamespace(name="train"), wildcards=["", "x", "0"], resources={"mem_mb": 4000})
    (tmp_path / "7.log").write_text(f"some output\n{line}\nmore\n")
    logs = [str(tmp_path / "7.log"), None, str(tmp_path / "absent.log")]
    plugin.Executor().report_job_error(SimpleNamespace(job=job, external_jobid="7"), msg="failed. ", aux_logs=logs)
    assert ("It ran out of its 4000 MB" in plugin.messages[0]) == is_memory == bool(executor.exhausted)


def test_memory_grows_up_to_the_largest_node_with_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "_nodes", lambda: [["gpu:h100:4", "16", "512000"], ["(null)", "128", "1024000"]])
    assert largest_memory(ASKED, "h100") == 512_000
    monkeypatch.setattr(slurm, "_nodes", list)
    assert largest_memory(ASKED, "h100") == 128_000
