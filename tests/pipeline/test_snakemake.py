"""Changes that the plan makes in Snakemake itself, and the threads of its jobs."""

from types import SimpleNamespace

import pytest
from snakemake.settings.types import MaxJobsPerTimespan, SchedulingSettings
from support import ROOT

from rtm.pipeline.snakemake import Plan, without_timers


def test_snakemake_does_not_look_at_all_jobs_all_the_time() -> None:
    """Snakemake's own default leaves a timer for each job that ended."""
    for given, kept in (("100/1s", False), ("1/10s", True)):
        limit = MaxJobsPerTimespan.parse_choice(given)
        without_timers(settings := SchedulingSettings(max_jobs_per_timespan=limit))
        assert (settings.max_jobs_per_timespan is limit) == kept


@pytest.mark.parametrize(
    ("root", "main", "cores", "threads"),
    [
        ("smoke/", True, 16, 16),  # on this machine: all cores
        ("smoke/", True, None, 1),  # submitted to a cluster ...
        ("smoke/", False, 16, 1),  # ... and running there: the requested cores
        ("", True, 16, 8),  # on a GPU
    ],
)
def test_a_timed_job_runs_alone(
    monkeypatch: pytest.MonkeyPatch, root: str, main: bool, cores: int | None, threads: int
) -> None:
    monkeypatch.chdir(ROOT)
    workflow = SimpleNamespace(
        global_resources={}, is_main_process=main, resource_settings=SimpleNamespace(cores=cores)
    )
    wildcards = SimpleNamespace(root=root, experiment="cifar10_imle_rtm")
    assert Plan(workflow, str, {}).all_threads("latency")(wildcards) == threads
