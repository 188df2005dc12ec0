"""`rtm runs`: the states of trainings in runs/, and which of them can be removed."""

import argparse
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rtm.core.layout import Layout
from rtm.lineage.job import Job, Stage
from rtm.lineage.receipts import Ledger
from rtm.lineage.recording import run_folder
from rtm.lineage.store import Store
from rtm.pipeline.amounts import space
from rtm.pipeline.graph import every_job
from rtm.pipeline.runs import book_of, is_running, only_one
from rtm.pipeline.unfinished import step_of
from rtm.reports.status import duration, short

USAGE = """\
rtm runs          every state: its training, step, age and size
rtm runs clean    remove states of finished trainings whose recorded weights are here or in the store

being trained     a process holds its lock
unfinished        the next `rtm train` or snakemake resumes it
finished          its weights are recorded; nothing needs it
not recorded      it has ended, but its weights are missing or not recorded; they will be written from it again
orphaned          its parameters or code have changed; `rtm lineage accept` may take it over, or delete it"""

Kind = Literal["being trained", "unfinished", "finished", "not recorded", "orphaned"]


@dataclass(frozen=True)
class Run:
    folder: Path
    seed: int | None
    kind: Kind
    step: int
    size: int
    age: float  # seconds since the last write


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.epilog = USAGE
    parser.add_argument("action", nargs="?", choices=["list", "clean"], default="list")


def runs(arguments: argparse.Namespace) -> None:
    """Show the states of trainings in runs/, or remove those that nothing needs."""
    found = sorted(states(), key=lambda run: (run.kind, run.folder))
    for run in found if arguments.action == "list" else []:
        print(_line(run))
    idle = [run for run in found if run.kind == "finished"]
    size = space(sum(run.size for run in idle))
    if arguments.action == "list":
        total = space(sum(run.size for run in found))
        print(f"{len(found)} states, {total}; `rtm runs clean` removes {len(idle)} finished ones, {size}")
        return
    for run in idle:
        with only_one(run.folder):
            shutil.rmtree(run.folder)
        print(f"removed {_line(run)}")
    print(f"{len(idle)} states removed, {size} are free now")


def states() -> Iterator[Run]:
    judge = _Judge()
    for root in sorted({job.root for job in judge.jobs}):
        for folder in sorted(Path(root).glob("runs/*/*")):
            if folder.is_dir():
                book, files = book_of(folder), [path for path in folder.rglob("*") if path.is_file()]
                written = max((path.stat().st_mtime for path in files), default=folder.stat().st_mtime)
                size = sum(path.stat().st_size for path in files)
                age = max(0.0, time.time() - written)
                yield Run(folder, book.seed if book else None, judge.kind(folder), step_of(folder), size, age)
    judge.ledger.hashes.save()


class _Judge:
    """Decide the purpose of each state from the receipts and the store."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.jobs = [job for job in every_job().values() if job.stage is Stage.TRAIN]
        self.shelf = Store(self.ledger).shelf
        self.present = {run_folder(self.ledger, job): job for job in self.jobs}
        entries = self.shelf.entries() if self.shelf else []
        self.kept = {str(entry.receipt["fingerprint"])[:16]: entry for entry in entries if entry.stage == Stage.TRAIN}

    def kind(self, folder: Path) -> Kind:
        if is_running(folder):
            return "being trained"
        if self._is_recorded(folder) or self._is_kept(folder):
            return "finished"
        if folder not in self.present:
            return "orphaned"
        book = book_of(folder)
        return "not recorded" if book and book.slices[-1].ended == "done" else "unfinished"

    def _is_recorded(self, folder: Path) -> bool:
        """Whether the final weights of this run are on this machine, with their receipt."""
        return any(
            folder == _trained_in(job, receipt["fingerprint"]) and not self.ledger.changed_outputs(receipt)
            for job in self.jobs
            if all(path.exists() for path in job.outputs) and (receipt := self.ledger.receipt(job))
        )

    def _is_kept(self, folder: Path) -> bool:
        entry = self.kept.get(folder.name)
        return bool(entry and self.shelf and all(self.shelf.sound(file) for file in entry.files.values()))


def _trained_in(job: Job, fingerprint: str) -> Path:
    return Layout(Path(job.root), Path(job.root)).run(str(job.subject.experiment), fingerprint)


def _line(run: Run) -> str:
    seed = "" if run.seed is None else f"seed {run.seed}"
    far = f"step {short(run.step)}"
    return f"{run.kind:<14} {run.folder!s:<56} {seed:<8} {far:<11} {duration(run.age):>6} {space(run.size):>8}"
