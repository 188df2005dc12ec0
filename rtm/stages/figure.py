"""Figures."""

from collections.abc import Iterable
from typing import Any

from rtm.stages.base import Job, Recording, Stage, Values
from rtm.stages.gallery import Gallery
from rtm.stages.summary import measurements
from rtm.stages.table import shown
from rtm.stages.train import Train

OF_IMAGES = ("samples", "slerp", "neighbours", "pairs")
OF_TRAININGS = ("curves", "progress", "rejected")


class Figure(Stage):
    """Draw a figure as PDF and PNG."""

    parts = ("figure",)
    files = {"pdf": "reports/figures/{figure}.pdf", "png": "reports/figures/{figure}.png"}
    reads = {"gallery": "images", "train": "curve", "summary": "metrics", "evaluate": "metrics", "latency": "cost"}
    shows = True

    def needs(self, job: Job) -> Iterable[Job]:
        figure = job.config.pick("figures", job.names["figure"])
        chosen = [job.config.experiment(name) for name in figure.experiments]
        if figure.kind in OF_IMAGES:
            for experiment in chosen:
                yield Gallery().job(job.config, experiment=experiment.name, seed=experiment.seeds[0])
        elif figure.kind in OF_TRAININGS:
            for experiment in chosen:
                for seed in experiment.seeds:
                    yield Train().job(job.config, experiment=experiment.name, seed=seed)
        else:
            yield from measurements(job, figure.experiments)
        if figure.table:
            yield from measurements(job, job.config.params.tables[figure.table].experiments())

    def values(self, job: Job) -> Values:
        config = job.config
        figure = config.pick("figures", job.names["figure"])
        chosen = [config.experiment(name) for name in figure.experiments]
        labels = {each.name: [each.dataset.title, each.mapper.model_dump(mode="json")] for each in chosen}
        values = {"figure": figure.model_dump(mode="json"), "labels": labels}
        if figure.table:
            values |= shown(config, config.params.tables[figure.table])
        return values

    def code(self, job: Job) -> tuple[str, ...]:
        return ("rtm.reports.figures",)

    def make(self, job: Job, recording: Recording, **options: Any) -> None:
        from rtm.reports.figures import render_figure

        render_figure(job.config, job.names["figure"])
