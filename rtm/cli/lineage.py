"""`rtm lineage`: why a job would run, the origin of a file, and the commands in dvc.yaml."""

import os
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rtm.config.loading import trials
from rtm.core.errors import UserError, printable
from rtm.lineage.acceptance import accepted_for, fewest, kept_by, must_sign, proposed, refuse_other, sign
from rtm.lineage.equivalence import append, read_lines
from rtm.lineage.format import recorded_graph
from rtm.lineage.job import Job, Stage
from rtm.lineage.receipts import Ledger, State
from rtm.lineage.recording import run_folder
from rtm.pipeline import dvc as dvcfile
from rtm.pipeline.graph import every_job, jobs_named
from rtm.pipeline.targets import find
from rtm.pipeline.unfinished import resumable, take_over

USAGE = """\
rtm lineage FILE                        what a file was made from, by which job, where and when
rtm lineage TABLE --cell ROW COLUMN     everything behind a number, and whether it has changed
rtm lineage why TARGET ...              what is stale behind a target, and why
rtm lineage accept TARGET ... --reason  keep the results after a refactoring: what changed is accepted as the same
rtm lineage verify TARGET ...           fail unless the targets are fresh
rtm lineage check                       read every file that has a receipt, and fail if one is not the recorded one
rtm lineage run TARGET ...              make what is stale through Snakemake, and verify it: the command of dvc.yaml
rtm lineage dvc [all | try/NAME ...]    write dvc.yaml: the stages of what is made, or of everything, or of a trial too
rtm lineage fingerprints                write what the stages of dvc.yaml depend on: the command of its first stage

A target is a file (reports/tab_cifar10.tex) or a job (train/cifar10_imle_rtm, for all its seeds); those of \
another scale begin with its folder (demo/reports/tab_digits.tex, demo/train/digits_rtm)."""


def lineage(words: Sequence[str], reason: str | None = None, cell: Sequence[str] | None = None) -> None:
    """Run the command in the words after `rtm lineage`."""
    if cell is not None:
        show_cell(words, *cell)
        return
    actions: dict[str, Callable[[list[Job]], None]] = {"why": why, "verify": verify, "run": run}
    first, *targets = words
    if first == "check":
        check()
    elif first == "fingerprints":
        dvcfile.write_fingerprints()
    elif first == "dvc":
        _write_dvc(targets)
    elif first == "accept":
        if not reason:
            raise UserError("Say why the results stay the same: rtm lineage accept TARGET --reason '...'.")
        accept(_wanted(targets), reason, every_job().values())
    elif first in actions:
        actions[first](_wanted(targets))
    else:
        for job in _wanted(words):
            show(job)


def why(jobs: list[Job]) -> None:
    """Print which jobs behind the given ones are not fresh, in the order in which they would run."""
    ledger = Ledger()
    stale = [job for job in _behind(jobs) if not job.temporary and ledger.state(job) in (State.STALE, State.CHANGED)]
    here = [job for job in jobs if ledger.state(job) is State.ABSENT]
    for job in stale + here:
        print(f"{job.id}: {'; '.join(ledger.why(job))}")
    if not stale + here:
        print(f"{', '.join(job.id for job in jobs)}: fresh")


def accept(jobs: list[Job], reason: str, every: Iterable[Job] = ()) -> None:
    """Accept all stale results and begun trainings behind the jobs. If one cannot be accepted, none is: an error."""
    ledger, behind = Ledger(), _behind(jobs)
    begun = {job: run for job in behind if (run := resumable(ledger, job))}
    stale = [job for job in behind if job not in begun and ledger.receipt(job) and not ledger.stands(job)]
    for job in stale:
        refuse_other(ledger, job)
    signed = [job for job in stale if must_sign(ledger, job)]
    changed = [line for job in stale if job not in signed for line in proposed(ledger, job, reason)]
    lines = fewest(ledger, changed)
    pairs = tuple(line.pair for line in lines)
    known = {job.id: job for job in (*every, *behind)}
    for job in (job for job in known.values() if job in signed or kept_by(ledger, job, pairs)):
        print(f"{job.id}: keeps its result{', its receipt signed anew' if job in signed else ''}")
    for job in begun:
        print(f"{job.id}: goes on from {run_folder(ledger, job)}")
    print("\n".join(map(str, lines)) or ("No code is accepted." if signed or begun else "Nothing was stale."))
    for job, run in begun.items():
        take_over(ledger, job, run, reason)
    for job in signed:
        sign(ledger, job, reason)
    append(lines)


def verify(jobs: list[Job]) -> None:
    ledger = Ledger()
    for job in jobs:
        ledger.verify(job)
    ledger.hashes.save()


def check() -> None:
    """Compare all outputs on this machine with their receipts, byte by byte, and recorded code with its file name."""
    ledger, graph = Ledger(), every_job()
    ledger.hashes.known.clear()
    known = {job.receipt for job in graph.values()}
    folders = {Path(job.root) / "lineage" for job in graph.values()}
    problems = [f"{path}: no job of params/ writes this receipt" for path in _receipts(folders) if path not in known]
    signed = [job for job in graph.values() if job.receipt in known and job.receipt.exists() and not job.temporary]
    for job in signed:
        problems += [f"{job.id}: {problem}" for problem in _untrue(ledger, job)]
    problems += [problem for folder in sorted(folders) for problem in _damaged(folder / "code")]
    try:
        read_lines()
    except UserError as unreadable:
        problems.append(str(unreadable))
    if problems:
        raise UserError("\n".join(problems))
    print(f"{len(signed)} receipts, all true")


def _untrue(ledger: Ledger, job: Job) -> list[str]:
    try:
        return ledger.untrue(job)
    except UserError as unreadable:
        return [str(unreadable)]


def _damaged(folder: Path) -> list[str]:
    """Messages about files of definitions whose name does not match the content."""
    named = [path for path in sorted(folder.glob("*.json")) if recorded_graph(path) is None]
    return [f"{path}: its name does not follow from its content; restore it or delete it" for path in named]


def run(jobs: list[Job]) -> None:
    """Run the stale jobs. Raise an error if not all are fresh afterwards, because DVC records the files then."""
    if not (stale := _unsettled(jobs)):
        return
    targets = [str(job.outputs[0]) for job in stale]  # its rule makes all outputs; no rule names the labels
    where = [] if "SNAKEMAKE_PROFILE" in os.environ else ["--cores", "all"]
    made = subprocess.run(["snakemake", *where, "--", *targets], check=False)
    if made.returncode:
        raise UserError(f"Snakemake did not finish {', '.join(job.id for job in stale)}; its messages are above.")
    verify(_unsettled(jobs))


def _unsettled(jobs: Iterable[Job]) -> list[Job]:
    """The jobs that are not fresh. If nobody keeps the files of a job, its receipt is enough."""
    ledger = Ledger()
    stale = [job for job in jobs if not ledger.fresh(job)]
    ledger.hashes.save()
    return [job for job in stale if job.keeper != "nobody" or ledger.state(job) is not State.ABSENT]


def _write_dvc(words: Sequence[str]) -> None:
    asked = [word.rstrip("/") for word in words]
    if asked in ([], ["all"]):
        dvcfile.write(whole=bool(asked))
        return
    if unknown := [word for word in asked if word not in trials()]:
        known = "".join(f", {each}" for each in trials())
        raise UserError(
            f"There is no trial {printable(unknown[0])}; choose one of all{known}. `all` lists the stages of all "
            "experiments, and `rtm lineage dvc` alone the stages of what is made."
        )
    dvcfile.write(more=asked)
    names, files = " ".join(map(dvcfile.stage_of, asked)), " ".join(f"{each}/params.yaml" for each in asked)
    print(f"`dvc repro {names}` records it, `dvc push` keeps its bytes. For clones, after that:")
    print(f"  git add -f {files} && git add dvc.yaml dvc.lock lineage")


def show(job: Job) -> None:
    ledger = Ledger()
    receipt = ledger.receipt(job)
    print(f"{job.id}: {ledger.state(job).value}")
    for reason in ledger.why(job):
        print(f"  {reason}")
    if receipt is None:
        return
    for fact, value in [*receipt["made"].items(), ("fingerprint", receipt["fingerprint"])]:
        several = isinstance(value, dict) and ", ".join(f"{name} {found}" for name, found in value.items())
        print(f"  {fact:<12} {several or value}")
    for trace in receipt.get("accepted", []):
        print(f"  {'accepted':<12} {trace['time']}: {trace['reason']} ({'; '.join(trace['changes'])})")
    for line in accepted_for(ledger, job):
        print(f"  {'accepted':<12} {line.facts['time']}: {line.facts['reason']} ({line})")
    for name in receipt["parts"]["inputs"]:
        print(f"  {'from':<12} {name}")


def show_cell(words: Sequence[str], row: str, column: str) -> None:
    """Print the chain of one number of a table."""
    from rtm.reports.tracing import trace

    tables = [job for job in _wanted(words) if job.stage is Stage.TABLE]
    if len(tables) != 1:
        raise UserError("A cell is one of a table: rtm lineage reports/tab_cifar10.tex --cell cifar10_imle_rtm fid.")
    for line in trace(tables[0], row, column):
        print(line)


def _wanted(targets: Sequence[str]) -> list[Job]:
    if not targets:
        raise UserError("Name a file or a job, e.g. `rtm lineage why reports/tab_cifar10.tex`.")
    try:
        found = [job for target in targets for job in find(jobs_named(targets), target)]
    except UserError:  # the name may belong to another scale
        found = [job for target in targets for job in find(every_job(), target)]
    return list({job.id: job for job in found}.values())


def _behind(jobs: Iterable[Job]) -> list[Job]:
    return list({before.id: before for job in jobs for before in job.upstream()}.values())


def _receipts(folders: Iterable[Path]) -> list[Path]:
    every = (path for folder in sorted(folders) for path in sorted(folder.rglob("*.json")))
    return [path for path in every if path.parent.name != "code"]
