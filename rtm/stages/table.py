"""Tables."""

from collections.abc import Iterable
from typing import Any

from rtm.config import Config, reports
from rtm.core.files import digest
from rtm.stages.base import Job, Recording, Stage, Values
from rtm.stages.summary import measurements


class Table(Stage):
    """Render a table as LaTeX, CSV and Markdown, and print it."""

    parts = ("table",)
    files = {
        "tex": "reports/{table}.tex",
        "csv": "reports/{table}.csv",
        "md": "reports/{table}.md",
        "macros": "reports/{table}.macros.tex",  # a LaTeX macro for each number
        "lineage": "reports/{table}.lineage.json",  # the files behind each number
    }
    reads = {"summary": "metrics", "evaluate": "metrics", "latency": "cost"}
    shows = True

    def needs(self, job: Job) -> Iterable[Job]:
        return measurements(job, _table(job).experiments())

    def values(self, job: Job) -> Values:
        return shown(job.config, _table(job))

    def code(self, job: Job) -> tuple[str, ...]:
        return ("rtm.reports.tables", "rtm/reports/templates")

    def make(self, job: Job, recording: Recording, **options: Any) -> None:
        from rtm.reports.tables import render_table

        render_table(job.config, job.names["table"])


def _table(job: Job) -> reports.TableEntry:
    table: reports.TableEntry = job.config.pick("tables", job.names["table"])
    return table


def shown(config: Config, table: reports.TableEntry) -> Values:
    """A table's definition, the published numbers and the measured files that it shows, and its protocols' titles."""
    published = {key: config.params.published[key].model_dump(mode="json") for key in table.constants()}
    protocols = sorted({part.protocol for part in table.cells if part.protocol})
    titles = {name: config.params.protocols[name].title for name in protocols}
    measured = {str(path): digest(path) for path in table.measured_files() if path.exists()}
    values = {"table": table.model_dump(mode="json"), "published": published, "protocols": titles}
    return values | ({"measured": measured} if measured else {})
