"""Damaged files that the repository wrote itself and reads again: metrics, curves, receipts, galleries, weights.

These files contain no checksum; the receipt has the checksums. Here every reader must return a value of the right
kind, or raise an error of one sentence that names the file.
"""

import json
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import torch
from fuzz import fuzzer
from fuzz.damage import damaged
from support import PARAMS, fake_results, smoke_workspace

from rtm.config import Config, Experiment, load
from rtm.core.errors import UserError
from rtm.core.readers import checkpoint_metadata, reading
from rtm.lineage.receipts import read_receipt
from rtm.metrics.features import FeatureSet
from rtm.metrics.image_set import ImageSet
from rtm.models.checkpoint import load_generator
from rtm.page.curves import panels, read_curve
from rtm.reports.curves import read_logs
from rtm.reports.mosaics import read_gallery, samples, slerp
from rtm.reports.sheets import build
from rtm.reports.tables import to_lineage, to_tex
from rtm.stages.reference import Reference
from rtm.stages.train import Train

NAME = "digits_rtm"
RECEIPT = {
    "fingerprint": "a" * 64,
    "parts": {"params": {"x": 1}, "code": "b" * 16, "inputs": {"dataset/digits": "c"}},
    "outputs": {"checkpoints/x": {"md5": "d" * 32, "size": 10}},
    "made": {
        "host": "h",
        "time": "2026-01-01T00:00:00",
        "seconds": 1.0,
        "gpu_hours": 0.0,
        "environment": {"torch": "2"},
    },
}


@cache
def config() -> Config:
    return load("demo", PARAMS)


@cache
def made() -> Path:
    """Results of every kind, in the files that the jobs write."""
    root = Path(tempfile.mkdtemp(prefix="rtm-fuzz-"))
    here = config().at(root)
    for name in config().experiments:
        fake_results.write_results(here, name, {}, spread=0.1)
    fake_results.write_curves(here, NAME)
    fake_results.write_gallery(here, NAME)
    features = FeatureSet(np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32), None)
    ImageSet(features, features, {"digit_classifier": "x"}).save(
        Reference().path(here, "features", dataset="digits", protocol="digits")
    )
    path = Train().job(here, experiment=NAME, seed=0).receipt
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(RECEIPT), "utf-8")
    return root


@cache
def chosen_experiment() -> Experiment:
    return smoke_workspace.experiment("shells_imle_rtm")


@cache
def weights() -> Path:
    """A checkpoint."""
    root = Path(tempfile.mkdtemp(prefix="rtm-fuzz-"))
    chosen = chosen_experiment()
    run = smoke_workspace.run(root, chosen)
    run.export(root / "w.safetensors", root / "curve.csv", {"experiment": chosen.name, "run": "x"})
    return root / "w.safetensors"


def named(path: Path, call: Callable[[], object]) -> None:
    """The error about a damaged file names the file."""
    try:
        call()
    except UserError as error:
        assert path.name in str(error), f"no file is named: {error}"
        raise


def damaged_copy(rng: Random, folder: Path, chosen: Path) -> Config:
    shutil.copytree(made(), folder / "root")
    path = folder / "root" / chosen.relative_to(made())
    path.write_bytes(damaged(rng, path.read_bytes()))
    return config().at(folder / "root")


@fuzzer
def metrics_files(rng: Random, folder: Path) -> None:
    """Damaged metrics, summary or latency: the table, its notes and its lineage have numbers, or there is an error."""
    chosen = rng.choice(sorted(made().glob("demo/results/*/**/*.json")))
    copy = damaged_copy(rng, folder, chosen)

    def table() -> None:
        sheet = build(copy, "tab_digits")
        to_tex(sheet)
        to_lineage(sheet)

    table()


@fuzzer
def curve_files(rng: Random, folder: Path) -> None:
    """A damaged curve, on the page and in a figure."""
    copy = damaged_copy(rng, folder, rng.choice(sorted(made().glob(f"demo/results/{NAME}/training/*.csv"))))
    curves = [Train().path(copy, "curve", experiment=NAME, seed=seed) for seed in config().experiment(NAME).seeds]
    panels({NAME: [read_curve(path, None) for path in curves]}, 1000)
    read_logs(copy, NAME)


@fuzzer
def log_files(rng: Random, folder: Path) -> None:
    """The log of a running training, on the page: damaged lines are left out."""
    lines = [json.dumps({"step": step, "seconds": step / 2, "loss": 1 / step, "fid": 3.0}) for step in range(1, 40)]
    (folder / "log.jsonl").write_bytes(damaged(rng, "\n".join(lines).encode()))
    panels({NAME: [read_curve(folder / "absent.csv", folder / "log.jsonl")]}, 1000)


@fuzzer
def receipt_files(rng: Random, folder: Path) -> None:
    path = folder / "receipt.json"
    path.write_bytes(damaged(rng, json.dumps(RECEIPT, indent=2).encode()))
    named(path, lambda: read_receipt(path))


@fuzzer
def gallery_files(rng: Random, folder: Path) -> None:
    copy = damaged_copy(rng, folder, next(made().glob(f"demo/galleries/{NAME}/*.npz")))
    figure = next(each for each in config().figures.values() if each.kind == "samples")
    held = read_gallery(copy, NAME)
    samples(figure, ["x"], [held])
    slerp(figure, ["x"], [held])


@fuzzer
def reference_files(rng: Random, folder: Path) -> None:
    copy = damaged_copy(rng, folder, next(made().glob("features/digits/*.safetensors")))
    path = Reference().path(copy, "features", dataset="digits", protocol="digits")
    named(path, lambda: ImageSet.load(path))


@fuzzer
def checkpoint_files(rng: Random, folder: Path) -> None:
    """A generator with wrong shapes or values that are not finite never draws samples."""
    path = folder / "w.safetensors"
    path.write_bytes(damaged(rng, weights().read_bytes()))
    chosen = chosen_experiment()
    named(path, lambda: load_generator(chosen.architecture, path, torch.device("cpu")))
    with reading(path, "train it again"):
        checkpoint_metadata(path)
