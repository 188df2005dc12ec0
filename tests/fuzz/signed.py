"""Changed files that a receipt signs for, forged checkpoints from anywhere, and damaged parameters."""

import json
import shutil
from contextlib import chdir
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import torch
from fuzz import fuzzer
from fuzz.damage import damaged
from fuzz.results import NAME, config, made, weights
from safetensors.torch import load_file, save_file
from support import PARAMS, checkpoints, fake_results

import rtm
from rtm.checkpoints.sampler import Sampler
from rtm.cli.recorded import receipt_of, refuse_changed
from rtm.config import Config, load
from rtm.core.errors import UserError
from rtm.core.readers import checkpoint_metadata
from rtm.stages import stages
from rtm.stages.train import Train

SHOWN = (("table", "tab_digits"), ("figure", "fig_digits_curves"), ("figure", "fig_digits_samples"))
ODD: tuple[Any, ...] = (0, -1, 3, 10**9, 1.5, True, None, "x", "", [], {}, [1], {"kind": "mlp"}, {"kind": "rtm"})
DTYPES = (torch.int32, torch.uint8, torch.bool, torch.float16, torch.float64, torch.bfloat16)


@fuzzer
def signed_input(rng: Random, folder: Path) -> None:
    """`rtm table` and `rtm figure` refuse each file whose bytes are not the recorded ones."""
    shutil.copytree(made(), folder / "root", ignore=shutil.ignore_patterns("lineage"))
    here = config().at(folder / "root")
    stage, name = rng.choice(SHOWN)
    job = stages()[stage].job(here, **{stage: name})
    inputs = [(before, path) for before, path in job.reads() if path.exists()]
    before, path = rng.choice(inputs)
    fake_results.sign(Path(), before)
    with chdir(folder):  # it keeps the hashes of files there
        refuse_changed(job)  # nothing has changed yet
        path.write_bytes(damaged(rng, path.read_bytes()))
        refuse_changed(job)
    raise AssertionError("a changed file was shown")


@fuzzer
def signed_checkpoint(rng: Random, folder: Path) -> None:
    """Changed weights, or a changed receipt, are never those of an experiment."""
    here = config().at(folder)
    job = Train().job(here, experiment=NAME, seed=0)
    job.first.parent.mkdir(parents=True)
    job.first.write_bytes(weights().read_bytes())
    fake_results.sign(Path(), job)
    signed = receipt_of(job, job.first)
    chosen = rng.choice((job.first, job.receipt))
    chosen.write_bytes(damaged(rng, chosen.read_bytes()))
    taken = receipt_of(job, job.first)  # only a receipt whose damage is elsewhere may be taken
    assert chosen == job.receipt, "other weights were taken"
    assert taken["outputs"][str(job.first)]["md5"] == signed["outputs"][str(job.first)]["md5"]


@fuzzer
def forged_checkpoint(rng: Random, folder: Path) -> None:
    """A file with forged metadata or weights draws images of its own size, or is refused in one sentence."""
    described = checkpoint_metadata(_drawable())
    tensors = load_file(_drawable())
    kind = rng.randrange(4)
    if kind == 0:
        described = rng.choice(ODD)
    elif kind == 1:
        described[rng.choice(list(described))] = rng.choice(ODD)
    elif kind == 2:
        _change(rng, described["architecture"])
    else:
        name = rng.choice(list(tensors))
        tensors[name] = tensors[name].to(rng.choice(DTYPES))
    path = folder / "w.safetensors"
    save_file(tensors, path, {"rtm": json.dumps(described)})
    sampler = rtm.load(path, "cpu")
    images = sampler(count=2, **_options(rng))
    side = sampler.architecture.resolution
    assert images.shape == (2, side, side, 3)
    assert images.dtype == torch.uint8


@fuzzer
def drawing_options(rng: Random, folder: Path) -> None:
    """Options that mean nothing are refused; others draw images."""
    images = _sampler()(count=rng.choice((1, 2)), first=rng.choice((0, 2**31, 2**52, 2**63 - 1, -1)), **_options(rng))
    assert images.dtype == torch.uint8
    assert images.float().std() > 0


@fuzzer
def parameter_files(rng: Random, folder: Path) -> None:
    """Damaged YAML: other values, or a sentence for each mistake."""
    shutil.copytree(PARAMS, folder / "params")
    path = rng.choice(sorted((folder / "params").glob("*.yaml")))
    path.write_bytes(damaged(rng, path.read_bytes()))
    try:
        loaded = load("demo", folder / "params")
    except UserError as error:
        assert all(line.isprintable() for line in str(error).splitlines())
        return
    assert isinstance(loaded, Config)


@cache
def _drawable() -> Path:
    path = weights().with_name("drawable.safetensors")
    checkpoints.write(path, checkpoints.IMLE)
    return path


@cache
def _sampler() -> Sampler:
    return rtm.load(_drawable(), "cpu")


def _options(rng: Random) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if rng.random() < 0.4:
        options["truncation"] = rng.choice((0.7, 0, 2.0, -1, 1e38, float("nan"), float("inf")))
    if rng.random() < 0.4:
        options["H"] = rng.choice((1, 2, 5, 0, -3, 4097, 10**12))
    if rng.random() < 0.2:
        options["label"] = rng.choice((0, "x", 10**20))
    return options


def _change(rng: Random, architecture: dict[str, Any]) -> None:
    key = rng.choice(list(architecture))
    part = architecture[key]
    if isinstance(part, dict) and rng.random() < 0.8:
        part[rng.choice([*part, "H", "L", "width"])] = rng.choice((*ODD, 65_536, 4096))
    else:
        architecture[key] = rng.choice(ODD)
