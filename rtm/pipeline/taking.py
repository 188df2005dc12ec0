"""Snakemake takes earlier results before it plans jobs; a dry run plans as if they were here."""

import atexit
import os
import sys
from collections.abc import Callable

from rtm.lineage.earlier import SWITCH, WAITING, Earlier, described
from rtm.lineage.freshness import Freshness, State
from rtm.pipeline.amounts import counted
from rtm.stages.base import Job


class Taking:
    def __init__(self, freshness: Freshness, starts_jobs: Callable[[], bool]) -> None:
        self.freshness = freshness
        self.starts_jobs = starts_jobs
        self.earlier = Earlier(freshness)
        self.asked: set[str] = set()
        self.coming: list[str] = []  # in a dry run: the files of jobs that would come from the cache
        self.count = 0

    def take(self, job: Job) -> None:
        """Replace stale results of this job, and of all jobs before it, by earlier results. Inputs come first, because
        the other results depend on them."""
        state = self.freshness.state(job)
        if job.id in self.asked or state not in WAITING:
            return
        self.asked.add(job.id)
        for before in job.inputs if state is State.STALE else ():
            self.take(before)
        if self.freshness.state(job) in WAITING:
            self._take_one(job)

    def _take_one(self, job: Job) -> None:
        starts = self.starts_jobs()
        if starts:
            os.environ.setdefault(SWITCH, "asked")  # the jobs need not look again
        receipt = self.earlier.find(job)
        if receipt is None:
            return
        if starts:
            if self.earlier.bring(job, receipt):
                print(f"{job.id} comes from DVC's cache, {described(receipt)}.", file=sys.stderr)
            return
        if not self.count:
            atexit.register(self._announce)
        self.count += 1
        absent = [path for path in job.outputs.values() if not path.exists()]
        self.coming += map(str, absent)
        self.freshness.assume(job, self.earlier.signed(job, receipt))
        print(f"{job.id} would come from DVC's cache, {described(receipt)}.", file=sys.stderr)

    def _announce(self) -> None:
        """Below Snakemake's list, at the end of a dry run."""
        number = counted(self.count, "result")
        print(f"{number} would come from DVC's cache, not from a job, even if the list above has the job.")
