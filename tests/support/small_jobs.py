"""Jobs of a small package: its code, and the files that the jobs read and write."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rtm.cli.lineage import check
from rtm.core.files import digest, write_text
from rtm.lineage import store
from rtm.lineage.fingerprint import Code, present
from rtm.lineage.job import Job, Keeper, Stage, Subject
from rtm.lineage.receipts import Ledger, State
from rtm.lineage.recording import recorded
from rtm.lineage.store import Shelf, kept
from rtm.pipeline.graph import LIGHT

ENTRY = "rtm.first:main"
CODE = {
    "first": "from rtm.second import used\nfrom rtm import third\n\n\ndef main():\n    return used() + third.all()\n",
    "second": "LIMIT = 3\n\n\ndef used():\n    return LIMIT\n\n\ndef unused():\n    return 1\n",
    "third": "def all():\n    return 2\n",
    "errors": "def message():\n    return 1\n",
}
CURVE = "step,loss\n"


def root(sources: Mapping[str, str], *entries: str) -> str:
    """The hash of the code that the entries reach in a package `rtm` with these modules."""
    return Code({"rtm": "", **{f"rtm.{name}": text for name, text in sources.items()}}).root(entries or ("rtm.a:f",))


def forget() -> None:
    present.cache_clear()


def job(stage: str, *inputs: Job, temporary: bool = False, **params: Any) -> Job:
    output = Path("samples") if temporary else Path(f"out/{stage}.txt")
    keeper: Keeper = "nobody" if stage in ("reference", "sample") else "git"
    made = (Subject(experiment="x"), params, (ENTRY,), inputs, (output,), LIGHT, keeper, temporary)
    return Job("paper", "", Stage(stage), *made)


def make(made: Job, text: str = "text") -> None:
    with recorded(made):
        path = made.outputs[0] / "native.npy" if made.temporary else made.outputs[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def state(made: Job) -> State:
    return Ledger().state(made)


def edit(package: Path, name: str, old: str, new: str) -> None:
    path = package / f"{name}.py"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    forget()


def training(name: str = "x", root: str = "", **params: Any) -> Job:
    outputs = (Path(f"{root}checkpoints/{name}/seed0.safetensors"), Path(f"{root}results/{name}/training/seed0.csv"))
    made = (Subject(experiment=name, seed=0), params, ("rtm.first:main",), (), outputs, LIGHT)
    return Job("paper", root, Stage.TRAIN, *made, volatile=outputs[1:])


def train(job: Job, text: str = "weights") -> None:
    with kept(job):
        write_text(job.outputs[0], text)
        write_text(job.outputs[1], CURVE)


def shelf() -> Shelf:
    found = store.shelf_here()
    assert found is not None
    return found


def digest_of(text: str) -> str:
    write_text(Path("text"), text)
    return digest(Path("text"), "md5")


def check_alone(made: Job) -> None:
    """Run `rtm lineage check` as if there were no other job."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rtm.cli.lineage.every_job", lambda: {made.id: made})
        check()
