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
from rtm.core.files import checkpoint_metadata, reading
from rtm.core.layout import Layout
from rtm.lineage.format import read_receipt
from rtm.metrics.evaluate import ImageSet, samples_of
from rtm.metrics.features import FeatureSet
from rtm.metrics.sampling import write_samples
from rtm.models.drawing import load_generator
from rtm.page.panels import panels, read_curve
from rtm.reports.cells import build
from rtm.reports.mosaics import read_gallery, samples, slerp
from rtm.reports.notes import notes
from rtm.reports.plots import _logs
from rtm.reports.tables import to_lineage, to_tex

NAME = "digits_rtm"
RECEIPT = {
    "fingerprint": "a" * 64,
    "parts": {"params": {"x": 1}, "code": "b" * 16, "inputs": {"fetch/digits": "c"}},
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
    layout = Layout(root, root)
    for name in config().experiments:
        fake_results.write_results(config(), layout, name, {}, spread=0.1)
    fake_results.write_curves(config(), layout, NAME)
    fake_results.write_gallery(config(), layout, NAME)
    features = FeatureSet(np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32), None)
    ImageSet(features, features, {"digit_classifier": "x"}).save(layout.reference("digits", "digits"))
    path = layout.receipt("train", f"{NAME}/seed0")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(RECEIPT))
    return root


@cache
def chosen_experiment() -> Experiment:
    return smoke_workspace.experiment("shells_imle_rtm")


@cache
def weights() -> tuple[Path, Path]:
    """A checkpoint and its samples."""
    root = Path(tempfile.mkdtemp(prefix="rtm-fuzz-"))
    chosen = chosen_experiment()
    run = smoke_workspace.run(root, chosen)
    run.export(root / "w.safetensors", root / "curve.csv", {"experiment": chosen.name, "run": "x"})
    layout = Layout(root, root)
    write_samples(chosen, root / "w.safetensors", layout.samples(chosen.name, 0), 0)
    return root / "w.safetensors", layout.samples(chosen.name, 0)


def named(path: Path, call: Callable[[], object]) -> None:
    """The error about a damaged file names the file."""
    try:
        call()
    except UserError as error:
        assert path.name in str(error), f"no file is named: {error}"
        raise


def damaged_copy(rng: Random, folder: Path, chosen: Path) -> Layout:
    shutil.copytree(made(), folder / "root")
    path = folder / "root" / chosen.relative_to(made())
    path.write_bytes(damaged(rng, path.read_bytes()))
    return Layout(folder / "root", folder / "root")


@fuzzer
def metrics_files(rng: Random, folder: Path) -> None:
    """Damaged metrics, summary or latency: the table, its notes and its lineage have numbers, or there is an error."""
    chosen = rng.choice(sorted(made().glob("results/*/**/*.json")))
    layout = damaged_copy(rng, folder, chosen)

    def table() -> None:
        sheet = build(config(), layout, "tab_digits")
        to_tex(sheet, notes(config(), layout, sheet))
        to_lineage(config(), layout, sheet)

    table()


@fuzzer
def curve_files(rng: Random, folder: Path) -> None:
    """A damaged curve, on the page and in a figure."""
    layout = damaged_copy(rng, folder, rng.choice(sorted(made().glob(f"results/{NAME}/training/*.csv"))))
    curves = [layout.curve(NAME, seed) for seed in config().experiment(NAME).seeds]
    panels([read_curve(path, None) for path in curves], 1000)
    _logs(config(), layout, config().experiment(NAME))


@fuzzer
def log_files(rng: Random, folder: Path) -> None:
    """The log of a running training, on the page: damaged lines are left out."""
    lines = [json.dumps({"step": step, "seconds": step / 2, "loss": 1 / step, "fid": 3.0}) for step in range(1, 40)]
    (folder / "log.jsonl").write_bytes(damaged(rng, "\n".join(lines).encode()))
    panels([read_curve(folder / "absent.csv", folder / "log.jsonl")], 1000)


@fuzzer
def receipt_files(rng: Random, folder: Path) -> None:
    path = folder / "receipt.json"
    path.write_bytes(damaged(rng, json.dumps(RECEIPT, indent=2).encode()))
    named(path, lambda: read_receipt(path))


@fuzzer
def gallery_files(rng: Random, folder: Path) -> None:
    layout = damaged_copy(rng, folder, next(made().glob(f"galleries/{NAME}/*.npz")))
    figure = next(each for each in config().figures.values() if each.kind == "samples")
    held = read_gallery(config(), layout, NAME)
    samples(figure, ["x"], [held])
    slerp(figure, ["x"], [held])


@fuzzer
def reference_files(rng: Random, folder: Path) -> None:
    layout = damaged_copy(rng, folder, next(made().glob("features/digits/*.safetensors")))
    path = layout.reference("digits", "digits")
    named(path, lambda: ImageSet.load(path))


@fuzzer
def checkpoint_files(rng: Random, folder: Path) -> None:
    """A generator with wrong shapes or values that are not finite never draws samples."""
    path = folder / "w.safetensors"
    path.write_bytes(damaged(rng, weights()[0].read_bytes()))
    chosen = chosen_experiment()
    named(path, lambda: load_generator(chosen.architecture, path, torch.device("cpu")))
    with reading(path, "train it again"):
        checkpoint_metadata(path)


@fuzzer
def sample_files(rng: Random, folder: Path) -> None:
    chosen = chosen_experiment()
    layout = Layout(folder, folder)
    shutil.copytree(weights()[1], layout.samples(chosen.name, 0))
    path = layout.samples(chosen.name, 0) / "native.npy"
    path.write_bytes(damaged(rng, path.read_bytes()))
    named(path, lambda: samples_of(layout, chosen, 0, "native", 1))
