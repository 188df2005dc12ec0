"""What the plan changes in Snakemake itself."""

from snakemake.settings.types import MaxJobsPerTimespan, SchedulingSettings

from rtm.pipeline.snakemake import without_timers


def test_snakemake_does_not_look_at_all_jobs_all_the_time() -> None:
    """Its own default leaves a timer for each job that ended."""
    for given, kept in (("100/1s", False), ("1/10s", True)):
        limit = MaxJobsPerTimespan.parse_choice(given)
        without_timers(settings := SchedulingSettings(max_jobs_per_timespan=limit))
        assert (settings.max_jobs_per_timespan is limit) == kept
