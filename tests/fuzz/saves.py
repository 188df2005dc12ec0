"""Damaged, mixed-up or forged saves of a training: the previous save is used, with a message of one line."""

import contextlib
import io
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import torch
from fuzz import fuzzer
from fuzz.damage import damaged
from support import smoke_workspace

from rtm.core.errors import UserError
from rtm.core.files import write_json
from rtm.core.readers import read_numbers
from rtm.core.sealed import sealed, unsealed
from rtm.lineage.begun import _begun
from rtm.training.folder import history_of, log_rows, step_of
from rtm.training.loop import Run

ODD: tuple[Any, ...] = (10**9, -1, 1.5, "x", None, {}, [], float("nan"), torch.tensor(float("inf")), torch.zeros(3))


@cache
def finished() -> tuple[Path, Run]:
    """A short training with two saves."""
    folder = Path(tempfile.mkdtemp(prefix="rtm-fuzz-"))
    run = smoke_workspace.run(folder, smoke_workspace.experiment("shells_imle_rtm", save_every=2))
    run.train()
    return folder, run


def resumed(folder: Path) -> tuple[int, str]:
    """The step at which a copy of the training resumes, and its messages."""
    run = finished()[1]
    run.folder = folder
    run.state_file = folder / "state.pt"
    run.previous_state_file = folder / "state.prev.pt"
    with contextlib.redirect_stderr(io.StringIO()) as said:
        run._load()
    return run.done, said.getvalue()


def copied(folder: Path) -> Path:
    return Path(shutil.copytree(finished()[0] / "run", folder / "run"))


@fuzzer
def save_damaged(rng: Random, folder: Path) -> None:
    """Every changed byte is found; only one save is lost."""
    run = copied(folder)
    state = run / "state.pt"
    state.write_bytes(damaged(rng, state.read_bytes()))
    step, said = resumed(run)
    assert step == 4, "a damaged save was taken"
    assert said.count("\n") == 1
    assert "state.pt is damaged" in said
    assert "Resuming at step 4" in said


@fuzzer
def save_flipped(rng: Random, folder: Path) -> None:
    """One flipped bit is found."""
    run = copied(folder)
    content = bytearray((run / "state.pt").read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    (run / "state.pt").write_bytes(content)
    assert resumed(run)[0] == 4, "a damaged save was taken"


@fuzzer
def save_both(rng: Random, folder: Path) -> None:
    """If both saves are damaged, there is an error of one sentence."""
    run = copied(folder)
    for name in ("state.pt", "state.prev.pt"):
        (run / name).write_bytes(damaged(rng, (run / name).read_bytes()))
    step = resumed(run)[0]
    raise AssertionError(f"resumed at step {step}")


@fuzzer
def save_forged(rng: Random, folder: Path) -> None:
    """The checksum is right, but the content is wrong: another seed, kind or run, odd values, missing parts."""
    run = copied(folder)
    with unsealed(run / "state.pt") as (header, payload):
        state: dict[str, Any] = torch.load(payload, weights_only=True)
    if rng.random() < 0.4:
        header[rng.choice(list(header))] = rng.choice(("x", 1, None, [], {}))
    elif rng.random() < 0.5:
        del state[rng.choice(["done", "log", "networks", "optimizers", "ema", "best", "extra", "seconds"])]
    else:
        chosen = rng.choice(["done", "networks", "ema", "optimizers"])
        state[chosen] = rng.choice(ODD)
    with sealed(run / "state.pt", header) as file:
        torch.save(state, file)
    assert resumed(run)[0] == 4, "a forged save was taken"


@fuzzer
def training_log(rng: Random, folder: Path) -> None:
    """However log.jsonl is damaged, the curve is that of the training."""
    run = copied(folder)
    log = run / "log.jsonl"
    whole = log.read_bytes()
    log.write_bytes(damaged(rng, whole))
    resuming = finished()[1]
    resuming.rows = []
    resumed(run)
    resuming.log = log
    with contextlib.redirect_stderr(io.StringIO()):
        resuming._restore_log()
    rows = {row["step"]: row for row in log_rows(log)}
    assert list(rows.values()) == [json.loads(line) for line in whole.splitlines()], "a damaged log was taken"
    resuming.export(folder / "w.safetensors", folder / "curve.csv", {})
    steps = [row["step"] for row in read_numbers(folder / "curve.csv")]
    assert steps == list(rows), "the curve has other rows"


@fuzzer
def run_folder_files(rng: Random, folder: Path) -> None:
    """Damaged run.json, begun.json or log of a run: an error of one sentence, or some rows are left out."""
    run = copied(folder)
    last = {"host": "h", "pid": 1, "job": None, "gpus": 1, "began": 1.0, "seconds": 2.0, "ended": "done"}
    write_json(run / "run.json", {"experiment": "x", "seed": 0, "slices": [last]})
    write_json(run / "begun.json", {"code": "a", "revision": None})
    for name in ("run.json", "begun.json", "log.jsonl"):
        if rng.random() < 0.6:
            (run / name).write_bytes(damaged(rng, (run / name).read_bytes()))
    rows = log_rows(run / "log.jsonl")
    assert all(row["step"] >= 0 for row in rows)
    assert step_of(run) >= 0
    try:
        history = history_of(run)
        assert history is not None
        assert history.gpu_hours >= 0
    except UserError as error:
        assert str(error).isprintable()
    assert isinstance(_begun(run)["code"], str | None)
