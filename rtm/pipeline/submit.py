"""`python -m rtm.pipeline.submit PLACE ...`: sbatch, repeated while SLURM's controller does not answer.

If sbatch timed out, the job may still be submitted: a busy controller handles the request later, perhaps even after the
first look at the queue. So sbatch is repeated only after the queue was twice without the job.
The executor hides the output of a submission, so the wait is announced at PLACE, which is Snakemake's own stderr.
"""

import os
import subprocess
import sys
import time
from contextlib import suppress
from datetime import datetime, timedelta

from rtm.pipeline.slurm import queued
from rtm.training.cluster import AWAY, NoAnswer

PATIENCE = 3600.0  # seconds
PAUSE = 10.0
CLOCKS = timedelta(seconds=30)  # the clocks of two machines may differ by this


def submit(words: list[str], place: str = os.devnull) -> int:
    """Run sbatch; pass on its output and its exit code."""
    began = datetime.now()
    until = time.monotonic() + PATIENCE
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
            with suppress(NoAnswer):
                if number := submitted(words, began):
                    print(number)
                    return 0
                absent += 1


def submitted(words: list[str], since: datetime) -> str | None:
    """The number of the job, if sbatch submitted it although the call seemed to fail."""
    name, text = (words[words.index(option) + 1] for option in ("--job-name", "--comment"))
    for job in queued():
        is_new = datetime.fromisoformat(job.submitted) > since - CLOCKS
        if is_new and job.name == name and job.comment == text:
            return job.id
    return None


def _announce(place: str, sentence: str) -> None:
    with suppress(OSError), open(place, "a", encoding="utf-8") as file:
        print(sentence, file=file)


if __name__ == "__main__":
    sys.exit(submit(sys.argv[2:], sys.argv[1]))
