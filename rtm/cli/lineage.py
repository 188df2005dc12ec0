"""`rtm lineage`: where a result comes from, what is stale and why, and the files of DVC."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rtm.cli.place import given_target
from rtm.config import load
from rtm.config.loading import trials
from rtm.core.errors import UserError, printable
from rtm.lineage.accepting import accept
from rtm.lineage.freshness import Freshness, State
from rtm.pipeline import dvc, dvc_data
from rtm.pipeline.dvc_stages import stage_name
from rtm.stages.base import Job, upstream
from rtm.stages.graph import every_job, jobs_of

USAGE = """\
rtm lineage FILE                        what a file was made from, by which job, where and when
rtm lineage TABLE --cell ROW COLUMN     everything behind a number, and whether it has changed
rtm lineage why TARGET ...              what is stale behind a target, and why
rtm lineage accept TARGET ... --reason  keep the results after a refactoring: the code is accepted as the same
rtm lineage verify TARGET ...           fail unless the targets are fresh
rtm lineage check                       read every file that has a receipt, and fail if one is not the recorded one
rtm lineage dvc [all | try/NAME ...]    write dvc.yaml: the stages of what is made, or of everything, or of a trial too
rtm lineage dvc DATASET ...             send prepared datasets to a remote of DVC, and name them in data.dvc
rtm lineage code                        write lineage/code.yaml: the command of dvc.yaml's first stage

A target is a file (reports/tab_cifar10.tex) or a job (train/cifar10_imle_rtm, for all its seeds); those of \
another scale begin with its folder (demo/reports/tab_digits.tex, demo/train/digits_rtm)."""


def add_options(parser: ArgumentParser) -> None:
    parser.epilog = USAGE
    text = "a file, or an action with its targets: see below"
    parser.add_argument("words", nargs="+", type=given_target, metavar="WORD", help=text)
    parser.add_argument("--cell", nargs=2, metavar=("ROW", "COLUMN"), help="which number of a table")
    parser.add_argument("--reason", help="for accept: why the results stay the same")
    parser.add_argument("--remote", help="for dvc DATASET: which remote, if not DVC's default")


def lineage(arguments: Namespace) -> None:
    """Show where a result comes from, or what is stale and why; write DVC's files."""
    actions: dict[str, Callable[[Sequence[str]], None]] = {
        "why": lambda targets: why(jobs_of(targets)),
        "verify": lambda targets: verify(jobs_of(targets)),
        "accept": lambda targets: _accept(targets, arguments.reason),
        "check": lambda _: check(),
        "dvc": lambda names: write_dvc(names, arguments.remote),
        "code": lambda _: write_code(),
    }
    first, *targets = arguments.words
    if arguments.cell is not None:
        show_cell(arguments.words, *arguments.cell)
    elif first in actions:
        actions[first](targets)
    else:
        for job in jobs_of(arguments.words):
            show(job)


def why(jobs: Sequence[Job]) -> None:
    """Print which jobs behind the given ones are not fresh, in the order in which they would run."""
    freshness = Freshness()
    waiting = [job for job in upstream(jobs) if freshness.state(job) in (State.STALE, State.CHANGED)]
    waiting += [job for job in jobs if freshness.state(job) is State.ABSENT]
    for job in waiting:
        print(f"{job.id}: {'; '.join(freshness.why(job))}")
    if not waiting:
        print(f"{', '.join(job.id for job in jobs)}: fresh")


def verify(jobs: Iterable[Job]) -> None:
    freshness = Freshness()
    freshness.verify(jobs)
    freshness.hashes.save()


def _accept(targets: Sequence[str], reason: str | None) -> None:
    if not reason:
        raise UserError("Say why the results stay the same: rtm lineage accept TARGET --reason '...'.")
    accepted = accept(jobs_of(targets), reason)
    print("\n".join(map(str, accepted)) or "Nothing was stale.")


def check() -> None:
    """Compare all files on this machine with their receipts, byte by byte."""
    freshness = Freshness()
    freshness.hashes.known.clear()
    graph = every_job()
    known = {job.receipt for job in graph.values()}
    folders = sorted({Path(job.root) / "lineage" for job in graph.values()})
    receipts = [path for folder in folders for path in sorted(folder.rglob("*.json"))]
    problems = [f"{path}: no job of params/ writes this receipt" for path in receipts if path not in known]
    signed = [job for job in graph.values() if job.receipt.exists()]
    for job in signed:
        problems += [f"{job.id}: {fault}" for fault in _faults(freshness, job)]
    if problems:
        raise UserError("\n".join(problems))
    print(f"{len(signed)} receipts, all true")


def _faults(freshness: Freshness, job: Job) -> list[str]:
    try:
        return freshness.faults(job)
    except UserError as unreadable:
        return [str(unreadable)]


def write_dvc(words: Sequence[str], remote: str | None = None) -> None:
    names = [word.rstrip("/") for word in words]
    if names and names_datasets(names):
        dvc_data.send(names, remote)
        names = []
    if names in ([], ["all"]):
        dvc.write(whole=bool(names))
        return
    if unknown := [name for name in names if name not in trials()]:
        known = "".join(f", {trial}" for trial in trials())
        raise UserError(
            f"There is no trial {printable(unknown[0])}; choose one of all{known}. `all` lists the stages of all "
            "experiments, and `rtm lineage dvc` alone the stages of what is made."
        )
    dvc.write(more=names)
    stages = " ".join(map(stage_name, names))
    files = " ".join(f"{name}/params.yaml" for name in names)
    print(f"`dvc repro {stages}` records it, `dvc push` keeps its bytes. For clones, after that:")
    print(f"  git add -f {files} && git add dvc.yaml dvc.lock lineage")


def names_datasets(words: Sequence[str]) -> bool:
    return set(words) <= load().params.datasets.keys()


def write_code() -> None:
    dvc.check()
    dvc.write_code()


def show(job: Job) -> None:
    freshness = Freshness()
    receipt = freshness.receipt(job)
    print(f"{job.id}: {freshness.state(job).value}")
    for reason in freshness.why(job):
        print(f"  {reason}")
    if receipt is None:
        return
    for fact, value in [*receipt["made"].items(), ("fingerprint", receipt["fingerprint"])]:
        text = ", ".join(f"{name} {one}" for name, one in value.items()) if isinstance(value, dict) else value
        print(f"  {fact:<12} {text}")
    for accepted in freshness.acceptances.of(job.id):
        print(f"  {'accepted':<12} {accepted}")
    for name in receipt["parts"]["inputs"]:
        print(f"  {'from':<12} {name}")


def show_cell(words: Sequence[str], row: str, column: str) -> None:
    """Print the chain of one number of a table."""
    from rtm.reports.tracing import trace

    tables = [job for job in jobs_of(words) if job.stage.name == "table"]
    if len(tables) != 1:
        raise UserError("A cell is one of a table: rtm lineage reports/tab_cifar10.tex --cell cifar10_imle_rtm fid.")
    for line in trace(tables[0], row, column):
        print(line)
