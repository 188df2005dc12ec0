"""A table reads what its cells show."""

from support import PARAMS

from rtm.config import load
from rtm.lineage.code import present
from rtm.reports.tables import WRITERS
from rtm.stages.table import Table, shown

DEMO = load("demo", PARAMS)
JOB = Table().job(DEMO, table="tab_digits")


def test_it_reads_the_summaries_of_its_rows() -> None:
    summaries = {str(before.names["experiment"]) for before in JOB.inputs if before.stage.name == "summary"}
    assert summaries == set(DEMO.tables["tab_digits"].experiments())


def test_it_is_written_in_each_format() -> None:
    assert JOB.outputs.keys() == WRITERS.keys()


def test_published_numbers_and_titles_are_values() -> None:
    paper = load("paper", PARAMS)
    table = paper.tables["tab_cifar10"]
    values = shown(paper, table)
    assert values["published"].keys() == set(table.constants())
    assert values["protocols"]["paper"] == paper.params.protocols["paper"].title


def test_templates_and_nothing_of_models_are_its_code() -> None:
    reached = present().reached(JOB.code)
    assert "rtm/reports/templates/table.tex.j2" in reached
    assert not any(name.startswith(("rtm.models", "rtm.metrics", "rtm.training")) for name in reached)
