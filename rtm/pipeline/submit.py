"""`python -m rtm.pipeline.submit PLACE ...`: sbatch, repeated while SLURM's controller does not answer.

An sbatch that timed out may still have submitted its job: a controller that was busy answers it later, and perhaps
after the first question for the queue. So before it is repeated, the queue must have been without the job twice.
The executor shows nothing of what a submission prints, so the wait is announced at PLACE: Snakemake's own stderr.
"""

import os
import subprocess
import sys
import time
from contextlib import suppress
from datetime import datetime, timedelta

from rtm.pipeline.slurm import AWAY, Away, queued

PATIENCE, PAUSE = 3600.0, 10.0  # seconds
CLOCKS = timedelta(seconds=30)  # by which two machines may differ


def submit(words: list[str], place: str = os.devnull) -> int:
    """Pass on what sbatch prints and its exit code."""
    began, until = datetime.now(), time.monotonic() + PATIENCE
    while True:
        done = subprocess.run(["sbatch", *words], capture_output=True, text=True, check=False)
        is_away = bool(done.returncode) and any(sign in done.stderr.lower() for sign in AWAY)
        if not is_away or time.monotonic() > until:
            sys.stdout.write(done.stdout)
            sys.stderr.write(done.stderr)
            return done.returncode
        _announce(place, "SLURM's controller does not answer; the submission is repeated.")
        absent = 0
        while absent < 2 and time.monotonic() < until:
            time.sleep(PAUSE)
            with suppress(Away):
                if number := submitted(words, began):
                    print(number)
                    return 0
                absent += 1


def submitted(words: list[str], since: datetime) -> str | None:
    """The number of the job, if an sbatch that seemed to fail has submitted it."""
    names = {option: words[words.index(option) + 1] for option in ("--job-name", "--comment")}
    for job in queued():
        same = (job.name, job.comment) == (names["--job-name"], names["--comment"])
        if same and datetime.fromisoformat(job.submitted) > since - CLOCKS:
            return job.id
    return None


def _announce(place: str, sentence: str) -> None:
    with suppress(OSError), open(os.open(place, os.O_WRONLY | os.O_APPEND), "w") as file:
        print(sentence, file=file)


if __name__ == "__main__":
    sys.exit(submit(sys.argv[2:], sys.argv[1]))
