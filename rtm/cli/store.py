"""`rtm store`: the results that are kept by content, here and in the DVC remote."""

import argparse
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime

from rtm.core.errors import UserError
from rtm.core.files import UNREADABLE
from rtm.lineage import collect
from rtm.lineage.job import Job
from rtm.lineage.receipts import Ledger
from rtm.lineage.remote import CODE, INDEX, OBJECTS
from rtm.lineage.store import DVC, KINDS, SWITCH, Entry, Shelf, Store, address
from rtm.pipeline.amounts import counted, space
from rtm.pipeline.graph import every_job
from rtm.pipeline.targets import find
from rtm.reports.status import duration

USAGE = """\
rtm store                     every result in the store: the job that made it, its age and size, and where it is
rtm store push [TARGET ...]   copy results to the DVC remote; without a target all that are here
rtm store pull [TARGET ...]   get results that are stale or absent here; without a target all of params/
rtm store gc                  list what no branch, no tag and no file here needs; --yes removes it
rtm store gc --force TARGET   list these results, though a receipt may need them; --yes removes them

A target is a file or a job, as for `rtm lineage`. RTM_STORE=off snakemake ... takes nothing from the store."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.epilog = USAGE
    parser.add_argument("action", nargs="?", choices=["list", "push", "pull", "gc"], default="list")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="files or jobs")
    parser.add_argument("--yes", action="store_true", help="for gc: remove what it lists")
    forced = "for gc: these results, though receipts or other clones may need them"
    parser.add_argument("--force", nargs="+", metavar="TARGET", default=[], help=forced)


def store(arguments: argparse.Namespace) -> None:
    """List, push, pull or remove stored results. The store finds them by content, not by name."""
    opened = Store(Ledger())
    if opened.shelf is None:
        raise UserError(f"There is no store: this is no DVC repository, or {SWITCH} is off. Try `dvc init`.")
    if arguments.action == "list":
        show(opened, opened.shelf)
    elif arguments.action == "push":
        push(opened, opened.shelf, arguments.targets)
    elif arguments.action == "pull":
        pull(opened, arguments.targets)
    else:
        gc(opened.shelf, arguments.force, yes=arguments.yes)


def show(opened: Store, shelf: Shelf) -> None:
    here, there = {entry.file: entry for entry in shelf.entries()}, set(opened.remote.files)
    distant = {file: entry for file in sorted(there - here.keys()) if (entry := _distant(opened, file))}
    rows = sorted({**distant, **here}.items(), key=lambda row: (row[1].job, str(row[1].made.get("time"))))
    for file, entry in rows:
        local = [] if file not in here else ["local"] if shelf.holds_all(entry) else ["local without its bytes"]
        print(_line(entry), ", ".join([*local, *(["remote"] if file in there else [])]), sep="  ")
    local_size = space(sum(entry.size for entry in here.values() if shelf.holds_all(entry)))
    print(f"{counted(len(rows), 'result')}, {len(here)} of them local ({local_size}), {len(there)} in the remote")


def push(opened: Store, shelf: Shelf, targets: Sequence[str]) -> None:
    """Upload bytes first and entries last, so that the bytes of every entry in the remote are there."""
    graph = every_job()
    for job in graph.values():
        if job.stage in KINDS:
            with suppress(OSError, UserError):  # without a readable receipt there is nothing to push
                opened.keep(job)
    wanted = _wanted(graph, targets, shelf.entries()) if targets else shelf.entries()
    pushed = [entry for entry in wanted if shelf.holds_all(entry) and _upload(opened, shelf, entry)]
    opened.ledger.hashes.save()
    for entry in pushed:
        print(_line(entry))
    size = space(sum(entry.size for entry in pushed))
    print(f"{counted(len(pushed), 'result')} pushed ({size}), {len(wanted)} asked for")


def pull(opened: Store, targets: Sequence[str]) -> None:
    graph = every_job()
    chosen = [job for target in targets for job in find(graph, target)] if targets else list(graph.values())
    behind = {before.id: before for job in chosen for before in job.upstream()}
    number = sum(opened.serve(job) is not None for job in behind.values() if job.stage in KINDS)
    print(f"{counted(number, 'result')} came from the store")


def gc(shelf: Shelf, forced: Sequence[str], *, yes: bool) -> None:
    """List unneeded results, or the forced targets; remove them only with --yes."""
    if yes and not forced and DVC.absolute().resolve() not in shelf.root.absolute().resolve().parents:
        raise UserError(f"Other clones may need what is in {shelf.root}; remove by name: rtm store gc --force TARGET.")
    entries = shelf.entries()
    going = _wanted(every_job(), forced, entries) if forced else collect.unneeded(shelf, entries)
    for entry in going:
        print(_line(entry))
    if yes:
        freed = collect.remove(shelf, going, force=bool(forced))
        print(f"{len(going)} of {len(entries)} results removed, {space(freed)} are free now")
    else:
        why = "would be removed" if forced else "are not needed by anything"
        size = space(sum(entry.size for entry in going))
        print(f"{len(going)} of {len(entries)} results ({size}) {why}; --yes removes them")


def _upload(opened: Store, shelf: Shelf, entry: Entry) -> bool:
    for md5 in sorted(entry.md5s):
        opened.remote.put(shelf.object(md5), f"{OBJECTS}/{md5[:2]}/{md5[2:]}")
    opened.remote.put(shelf.code / f"{entry.code}.json", f"{CODE}/{entry.code}.json")
    return opened.remote.put(shelf.index / entry.file, f"{INDEX}/{entry.file}")


def _distant(opened: Store, file: str) -> Entry | None:
    with suppress(*UNREADABLE):
        return Entry.of(opened.remote.text(file) or "", file)
    return None


def _wanted(graph: dict[str, Job], targets: Sequence[str], entries: Iterable[Entry]) -> list[Entry]:
    """The entries of targets, found by the address of a job, or by the name with which they were made."""
    ledger, found = Ledger(), []
    jobs = [job for target in targets if not _is_made_as(target, entries) for job in find(graph, target)]
    addresses = {address(job.stage, ledger.parts(job)) for job in jobs if job.stage in KINDS}
    for entry in entries:
        if entry.address in addresses or any(_is_made_as(target, [entry]) for target in targets):
            found.append(entry)
    return found


def _is_made_as(target: str, entries: Iterable[Entry]) -> bool:
    return any(f"{entry.job}/".startswith(f"{target.rstrip('/')}/") or entry.id == target for entry in entries)


def _line(entry: Entry) -> str:
    age = "?"
    with suppress(ValueError, TypeError):
        age = duration(max(0.0, time.time() - datetime.fromisoformat(str(entry.made["time"])).timestamp()))
    return f"{entry.id}  {entry.job:<44} {age:>6} {space(entry.size):>8}"
