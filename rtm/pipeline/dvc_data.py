"""data.dvc from receipts: the prepared datasets whose bytes a remote of DVC holds. `rtm lineage dvc` writes it.

Every file is an output of its own, so a pull touches nothing else in data/ and needs no list of a folder. A remote that
is a folder of this repository goes to everyone, so it gets only what may be passed on.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from rtm.config import Config, load
from rtm.config import experiments as models
from rtm.core.errors import UserError, printable
from rtm.core.files import write_text
from rtm.core.readers import UNREADABLE
from rtm.lineage import cache
from rtm.lineage.freshness import Freshness
from rtm.lineage.receipts import JSON
from rtm.stages.base import Job
from rtm.stages.dataset import Dataset

FILE = Path("data.dvc")
FREE = ("CC BY 4.0", "CC0", "public domain")  # licences that let everyone pass the images on
HEADER = """\
# Written by `rtm lineage dvc` from receipts: the prepared datasets whose bytes a remote holds. Get them with
# `dvc pull data.dvc`; docs/data.md says how to add one.
"""
Out = dict[str, Any]  # an entry of data.dvc


def write() -> None:
    """Write data.dvc; without such a dataset there is no file."""
    if cache.folder() is None:
        return
    outs = list(_outs(load()))
    if not outs:
        FILE.unlink(missing_ok=True)
        return
    text = yaml.safe_dump({"outs": outs}, sort_keys=False)
    write_text(FILE, f"{HEADER}{text}")


def send(names: Iterable[str], remote: str | None) -> None:
    """Put the bytes of prepared datasets into DVC's cache and into a remote; None is DVC's default."""
    known = cache.remotes()
    if remote and remote not in known:
        raise UserError(f".dvc/config has no remote {printable(remote)}; choose one of {', '.join(known)}.")
    config = load()
    freshness = Freshness()
    place = remote or cache.default_remote()
    for name in names:
        dataset = config.params.datasets[name]
        job = Dataset().job(config, dataset=name)
        if not _may_hold(remote, dataset):
            raise UserError(
                f"{name} stays out of {place}, a part of this repository: its licence is {dataset.licence}. "
                "Send it to a remote of your own: `dvc remote add --help`."
            )
        freshness.verify([job])
        outputs = _recorded(freshness, job)
        for path, recorded in outputs.items():
            if not cache.holds(recorded):
                cache.put(Path(path), recorded)
            cache.remote(remote).put(Path(path), recorded)
        if not _holds(remote, outputs):
            raise UserError(f"The remote {place} did not take {name}; see `dvc remote list`, and run this again.")
        print(f"{name} is in the remote {place}; its licence: {dataset.licence}")


def _outs(config: Config) -> Iterator[Out]:
    freshness = Freshness()
    before = listed()
    for name, dataset in config.params.datasets.items():
        job = Dataset().job(config, dataset=name)
        is_own = job.first.parent.with_suffix(".dvc").exists()  # of the user, by `dvc add`
        outputs = {} if is_own else _recorded(freshness, job)
        for remote in _remotes() if outputs else []:
            outs = list(_entries(outputs, remote))
            is_kept = all(out in before for out in outs)
            is_there = _may_hold(remote, dataset) and _holds(remote, outputs)
            if is_there or (is_kept and cache.remote(remote).is_away):
                yield from outs
                break


def listed() -> list[Out]:
    """The entries that data.dvc has now; none if it cannot be read."""
    with suppress(*UNREADABLE, yaml.YAMLError):
        return list(yaml.safe_load(FILE.read_text("utf-8"))["outs"])
    return []


def _entries(outputs: JSON, remote: str | None) -> Iterator[Out]:
    for path, recorded in outputs.items():
        out = {"path": path, "hash": "md5", **recorded}
        yield out | {"remote": remote} if remote else out


def _recorded(freshness: Freshness, job: Job) -> JSON:
    """The files of a dataset's receipt, if it belongs to the present values and code."""
    receipt = freshness.receipt(job)
    if receipt is None or not freshness.matches(job, receipt):
        return {}
    return dict(receipt["outputs"])


def _holds(remote: str | None, outputs: JSON) -> bool:
    return all(cache.remote(remote).has(recorded) for recorded in outputs.values())


def _remotes() -> list[str | None]:
    """The remotes, those that every clone has first; None is DVC's default, whatever its name is here."""
    names = sorted(cache.remotes(), key=_is_public, reverse=True)
    return [*filter(_is_public, names), None, *names]


def _is_public(remote: str | None) -> bool:
    """Whether it is a folder of this repository."""
    address = cache.remotes().get(remote or cache.default_remote(), "")
    return Path(address).is_relative_to(Path.cwd())


def _may_hold(remote: str | None, dataset: models.DatasetEntry) -> bool:
    return not _is_public(remote) or dataset.licence.startswith(FREE)
