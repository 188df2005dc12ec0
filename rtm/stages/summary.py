"""Means over seeds."""

from collections.abc import Iterable
from typing import Any

from rtm.stages.base import Job, Recording, Stage, Values
from rtm.stages.evaluate import Evaluate
from rtm.stages.latency import Latency


class Summary(Stage):
    """Write the mean and standard deviation of an experiment's metrics over its seeds, for `dvc metrics`."""

    files = {
        "metrics": "results/{experiment}/metrics.json",
        "sweep": "results/{experiment}/sweep.csv",  # the same at other depths, for `dvc plots`
    }
    compared = {"metrics": "metrics"}
    reads = {"evaluate": "metrics", "latency": "cost"}

    def needs(self, job: Job) -> Iterable[Job]:
        experiment = job.experiment
        for protocol in experiment.recipe.evaluation.protocols:
            for seed in experiment.seeds:
                yield Evaluate().job(job.config, experiment=experiment.name, protocol=protocol, seed=seed)
        yield Latency().job(job.config, experiment=experiment.name)

    def values(self, job: Job) -> Values:
        return {"seeds": list(job.experiment.seeds), "variants": list(job.experiment.variants)}

    def code(self, job: Job) -> tuple[str, ...]:
        return ("rtm.reports.summary",)

    def make(self, job: Job, recording: Recording, **options: Any) -> None:
        from rtm.reports.summary import write_summary

        write_summary(job.config, job.experiment.name)


def measurements(job: Job, names: Iterable[str]) -> Iterable[Job]:
    """The summaries of experiments and the files behind them, for a table or a figure."""
    for name in names:
        summary = Summary().job(job.config, experiment=name)
        yield summary
        yield from summary.inputs
