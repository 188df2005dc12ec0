"""The page is made from all tables and figures of a scale; nobody keeps it."""

from support import PARAMS

from rtm.config import load
from rtm.lineage.code import present
from rtm.stages.report import Report

DEMO = load("demo", PARAMS)
JOB = Report().job(DEMO)


def test_it_reads_all_reports() -> None:
    ids = {before.id for before in JOB.inputs}
    assert ids == {f"demo/table/{name}" for name in DEMO.tables} | {f"demo/figure/{name}" for name in DEMO.figures}


def test_there_is_one() -> None:
    assert list(Report().every(DEMO)) == [{}]
    assert JOB.first.as_posix() == "demo/reports/index.html"
    assert JOB.keeper == "nobody"


def test_its_files_for_browsers_are_its_code() -> None:
    assert any(name.startswith("rtm/page/web/") for name in present().reached(JOB.code))
