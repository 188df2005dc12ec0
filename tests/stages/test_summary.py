"""A summary reads all measurements of an experiment."""

from support import PARAMS

from rtm.config import load
from rtm.lineage.code import present
from rtm.stages.summary import Summary, measurements

DEMO = load("demo", PARAMS)
JOB = Summary().job(DEMO, experiment="digits_rtm")


def test_it_reads_every_seed_and_protocol_and_the_cost() -> None:
    ids = {before.id for before in JOB.inputs}
    assert ids == {
        *(f"demo/evaluate/digits_rtm/digits/seed{seed}" for seed in range(3)),
        "demo/latency/digits_rtm",
    }


def test_its_code_is_that_of_reports() -> None:
    assert all(name.startswith(("rtm.reports", "rtm.core", "rtm.stages")) for name in present().reached(JOB.code))


def test_tables_read_summaries_and_the_files_behind_them() -> None:
    read = list(measurements(JOB, ["digits_rtm", "digits_mlp8"]))
    assert read[0] is JOB
    assert set(JOB.inputs) < set(read)
    assert Summary().job(DEMO, experiment="digits_mlp8") in read
