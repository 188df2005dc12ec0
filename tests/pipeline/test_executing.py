"""Messages after a job of Snakemake fails."""

from pathlib import Path

from rtm.pipeline.executing import failure

LOG = Path("try/cats/logs/try/snakemake.log")


def test_the_sentence_of_the_job_is_said() -> None:
    text = (
        "rtm: a remark.\nmuch more\nrtm: The disk is full; free some space.\nWorkflowError:\nAt least one job failed.\n"
    )
    assert failure(text, LOG) == f"The disk is full; free some space. (From a job; its whole output is in {LOG}.)"


def test_a_job_without_a_sentence_shows_the_end_of_its_log() -> None:
    text = "\n".join(f"line {number}" for number in range(100))
    shown = failure(text, LOG).splitlines()
    assert shown[0] == f"Not all jobs succeeded; {LOG} ends with:"
    assert shown[1:] == text.splitlines()[-25:]
