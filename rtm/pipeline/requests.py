"""What jobs ask for: GPUs, memory, time and options of sbatch, within the limits of a site."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from rtm.config.experiments import Resources
from rtm.pipeline.site import largest_memory
from rtm.pipeline.slurm import Queued, comment
from rtm.stages.base import Job


class Requests:
    def __init__(self, site: Mapping[str, Any]) -> None:
        self.site = site  # the `config` of a profile

    def of(self, job: Job) -> Resources:
        """The resources that a job may use. `--config gpus=` limits the GPUs of a training."""
        limit = self.site.get("gpus") if job.stage.name == "train" else None
        return job.cost.at_most(max(1, int(limit))) if limit else job.cost

    def minutes(self, job: Job) -> int:
        """The minutes that a job asks for, at most the site's walltime."""
        whole = math.ceil(self.of(job).hours * 60)
        return min(whole, int(self.site.get("walltime", whole)))

    def model(self, job: Job) -> str:
        """The name of the GPU at this site."""
        cost = job.cost
        return str(self.site.get("gpu_model", cost.gpu_model)) if cost.gpus else ""

    def memory(self, job: Job, failures: int) -> int:
        """The memory in MB, doubled each time the job ran out of it, up to the largest node."""
        needed = self.of(job)
        asked = needed.mem_gb * 1000
        if not failures:
            return asked
        return min(asked << failures, largest_memory(needed, self.model(job)))

    def options(self, job: Job, queue: Iterable[Queued]) -> str:
        """Options of sbatch: a signal before the walltime; wait if an earlier copy of this job is still queued."""
        words = []
        if job.stage.name == "train":
            early = min(self.site.get("stop_before", 10), self.minutes(job) / 4)
            words += [f"--signal=URG@{int(60 * early)}", "--open-mode=append"]
        if earlier := [queued.id for queued in queue if queued.comment == comment(job)]:
            words.append(f"--dependency=afterany:{':'.join(earlier)}")
        return " ".join(words)

    def limit(self, job: Job) -> str:
        """The option of `rtm make` that limits the GPUs of a training."""
        limited = self.of(job).gpus
        return f"--gpus {limited}" if limited < job.cost.gpus else ""
