"""The page."""

from collections.abc import Iterable, Iterator
from typing import Any

from rtm.config import Config
from rtm.stages.base import Job, Names, Recording, Stage, Values
from rtm.stages.figure import Figure
from rtm.stages.table import Table


class Report(Stage):
    """Write one page for a browser with all results so far."""

    parts = ()
    files = {"page": "reports/index.html"}
    reads = {"table": "tex", "figure": "pdf"}
    keeper = "nobody"
    shows = True

    def every(self, config: Config) -> Iterator[Names]:
        yield {}

    def needs(self, job: Job) -> Iterable[Job]:
        yield from (Table().job(job.config, table=name) for name in job.config.tables)
        yield from (Figure().job(job.config, figure=name) for name in job.config.figures)

    def values(self, job: Job) -> Values:
        return {"figures": {name: [figure.title, figure.caption] for name, figure in job.config.figures.items()}}

    def code(self, job: Job) -> tuple[str, ...]:
        return ("rtm.page.html", "rtm/page/web")

    def make(self, job: Job, recording: Recording, **options: Any) -> None:
        from rtm.page.html import write_page
        from rtm.pipeline.status import statuses

        write_page(job.config, statuses(job.config))
