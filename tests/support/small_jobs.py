"""Jobs of a small package: its code, and the files that the jobs read and write."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support import PARAMS

from rtm.config import load
from rtm.core.files import digest, write_text
from rtm.lineage import cache
from rtm.lineage.code import present
from rtm.lineage.freshness import Freshness, State
from rtm.lineage.recording import recorded
from rtm.stages.base import Job, Stage

CODE = {
    "first": "from rtm.second import used\nfrom rtm import third\n\n\ndef main():\n    return used() + third.all()\n",
    "second": "LIMIT = 3\n\n\ndef used():\n    return LIMIT\n",
    "third": "def all():\n    return 2\n",
    "cli": "def message():\n    return 1\n",
}
CURVE = "step,loss\n"


def job(
    stage: str,
    *inputs: Job,
    experiment: str = "x",
    keeper: str = "git",
    reads: Mapping[str, str] | None = None,
    shows: bool = False,
    **values: Any,
) -> Job:
    """A job that makes out/STAGE.txt from values, other jobs and the package's code."""
    body = {
        "files": {"text": f"out/{stage}.txt"},
        "reads": reads or {before.stage.name: next(iter(before.outputs)) for before in inputs},
        "needs": lambda self, job: inputs,
        "keeper": keeper,
        "shows": shows,
    }
    return Job(_stage(stage, values, body), load("paper", PARAMS), {"experiment": experiment})


def training(experiment: str = "x", scale: str = "paper", **values: Any) -> Job:
    """A training: it makes weights and a curve, and DVC keeps them."""
    files = {
        "checkpoint": "checkpoints/{experiment}/seed{seed}.safetensors",
        "curve": "results/{experiment}/seed{seed}.csv",
    }
    body = {"files": files, "keeper": "dvc", "apart": ("curve",)}
    return Job(_stage("train", values, body), load(scale, PARAMS), {"experiment": experiment, "seed": "0"})


def _stage(name: str, values: Mapping[str, Any], body: Mapping[str, Any]) -> Stage:
    read = {"values": lambda self, job: values, "code": lambda self, job: ("rtm.first",)}
    kind: type[Stage] = type(name.capitalize(), (Stage,), {"__module__": "rtm.first", **read, **body})
    return kind()


def make(made: Job, text: str = "text") -> None:
    with recorded(made):
        write_text(made.first, text)
        for path in list(made.outputs.values())[1:]:
            write_text(path, CURVE)


def train(made: Job, text: str = "weights") -> None:
    """Make a training, and put it into DVC's cache."""
    make(made, text)
    cache.keep(made)


def state(made: Job) -> State:
    return Freshness().state(made)


def why(made: Job) -> list[str]:
    return Freshness().why(made)


def edit(package: Path, name: str, old: str, new: str) -> None:
    """Edit a module of the package; later questions see the new code."""
    path = package / f"{name}.py"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
    present.cache_clear()


def digest_of(text: str) -> str:
    write_text(Path("text"), text)
    return digest(Path("text"), "md5")
