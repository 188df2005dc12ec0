"""The guard against retraining: finished trainings run again only if the user allows it."""

import os
import sys
from collections.abc import Mapping
from typing import Any

from rtm.core.errors import UserError
from rtm.lineage.freshness import Freshness
from rtm.lineage.receipts import hours_of
from rtm.lineage.recording import unsigned
from rtm.pipeline.amounts import counted
from rtm.stages.base import Job

LIMIT = 1.0  # GPU-hours of finished trainings that may run again without being asked for


class Guard:
    """Counts the finished trainings that would run again, and stops above a limit."""

    def __init__(self, graph: Mapping[str, Job], freshness: Freshness, site: Mapping[str, Any]) -> None:
        self.graph = graph
        self.freshness = freshness
        self.allowed = str(site.get("redo", os.environ.get("RTM_REDO", LIMIT)))  # names, or a number of hours
        self.hours: dict[str, float] = {}  # of the trainings that would run again

    def refuse_costly(self, job: Job) -> None:
        """Print that a finished training will run again, and why; raise an error above the limit of GPU-hours."""
        if job.stage.name != "train" or job.id in self.hours:
            return
        receipt = self.freshness.receipt(job)
        if receipt or job.first.exists():
            reasons = self.freshness.why(job) if receipt else [f"it {unsigned(job)}"]
            self.hours[job.id] = hours_of(receipt) if receipt else 0.0
            print(f"{job.id} will be trained again: {_few(reasons, job)}", file=sys.stderr)
        if self._hours_unasked() > self._limit():
            raise UserError(self._message(job))

    def _hours_unasked(self) -> float:
        """The hours of the trainings that the user has not named."""
        names = self.allowed.split(",")
        beginnings = tuple(f"{name.rstrip('/')}/" for name in names)
        return sum(hours for job, hours in self.hours.items() if not f"{job}/".startswith(beginnings))

    def _limit(self) -> float:
        try:
            return float(self.allowed)
        except ValueError:  # it has names of trainings; the default limit is for the others
            return LIMIT

    def _message(self, job: Job) -> str:
        """The stale finished trainings of the scale, the reasons, and what to do."""
        lines = []
        total = 0.0
        for other in self.graph.values():
            is_ours = other.stage.name == "train" and other.config is job.config
            if not is_ours or self.freshness.state(other).is_usable:
                continue
            if receipt := self.freshness.receipt(other):
                hours = hours_of(receipt)
                total += hours
                why = _few(self.freshness.why(other), other)
                lines.append(f"  {other.id}: {hours:.1f} hours, {why}")
        return "\n".join(
            [
                f"{counted(len(lines), 'finished training')} ({total:,.1f} GPU-hours) would run again:",
                *lines,
                f"After a refactoring that keeps the results: `rtm lineage accept {job.id} --reason '...'`.",
                "To use results that were made elsewhere: `git pull` and `dvc fetch`, then try again.",
                f"To train again: `--config redo={job.id}` (a name, several with commas, or a number of hours); with "
                f"DVC: `RTM_REDO={job.id} dvc repro`.",
            ]
        )


def _few(reasons: list[str], job: Job, most: int = 3) -> str:
    shown = reasons[:most]
    if hidden := len(reasons) - len(shown):
        shown.append(f"{hidden} more, see `rtm lineage why {job.id}`")
    return "; ".join(shown)
