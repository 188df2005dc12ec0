"""`rtm fetch --check`, `--show` and `--pin`: the datasets on this machine."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rtm.config import Config, load
from rtm.config import experiments as models
from rtm.config.loading import PARAMS
from rtm.config.parameters import pick
from rtm.core.errors import UserError
from rtm.core.files import atomic
from rtm.lineage.freshness import Freshness
from rtm.lineage.recording import recorded
from rtm.pipeline import dvc_data
from rtm.stages.base import Job
from rtm.stages.dataset import Dataset

SHOWN = 64  # images of a contact sheet
COLUMNS = 8


def data(config: Config, action: str, names: Sequence[str]) -> None:
    for name in names:
        pick(config.params.datasets, name, "dataset")
    if action == "check":
        check(config, names)
        return
    if not names:
        raise UserError(f"Name a dataset, e.g. `rtm fetch --{action} digits`.")
    for name in names:
        ACTIONS[action](config, name)


def described(config: Config, name: str) -> str:
    """What was fetched, and how it is kept."""
    images = Dataset().path(config, "images", dataset=name)
    return f"{images}: {_size(config.params.datasets[name])}; version it with `rtm lineage dvc {name}`"


def check(config: Config, names: Sequence[str]) -> None:
    """Print a line for each dataset. An error at the end names the faulty ones, and requested ones that are missing."""
    freshness = Freshness()
    freshness.hashes.known.clear()  # so that every file is read again
    chosen = names or list(config.params.datasets)
    width = max([11, *map(len, chosen)])
    pulled = {out["path"] for out in dvc_data.listed()}
    wrong = []
    absent = []
    for name in chosen:
        job = Dataset().job(config, dataset=name)
        faults = _faults(freshness, job)
        wrong += [f"{name}: {fault}." for fault in faults]
        if _is_here(job):
            state = "good"
            text = _size(config.params.datasets[name])
        else:
            state = "not here"
            pull = f", or `dvc pull {dvc_data.FILE}`" if str(job.first) in pulled else ""
            text = f"`{config.fetching(name)}`{pull}"
            absent.append(name)
        print(f"{name:<{width}} {'wrong' if faults else state:<9} {text}")
    if wrong:
        raise UserError(" ".join(wrong) + " Fetch it again, or bring it back with `dvc checkout`.")
    if names and absent:
        raise UserError(f"Not here: {', '.join(absent)}; the lines above say how to get it.")


def show(config: Config, name: str) -> None:
    from rtm.data.check import facts
    from rtm.data.fetch import PREPARED

    dataset = config.params.datasets[name]
    images = Dataset().path(config, "images", dataset=name)
    sheet = config.shared / "galleries/data" / f"{name}.png"
    seen = _sources(Freshness().receipt(Dataset().job(config, dataset=name)) or {})
    sources = {file: sha256 for file, sha256 in seen.items() if file not in PREPARED}
    shown = facts(dataset, images, sources) | {"sheet": str(sheet)}
    write_contact_sheet(images, sheet)
    print(f"{dataset.title} ({name})")
    for title, value in shown.items():
        print(f"  {title:<12} {value}")


def pin(config: Config, name: str) -> None:
    """Write the sha256 of the present images into params/. Results that were made from them stay fresh."""
    from rtm.data.datasets import Images
    from rtm.data.pins import pin as write

    if config.scale_name != "paper":
        raise UserError("`rtm fetch --pin` is for the datasets of params/datasets.yaml; leave --scale out.")
    job = Dataset().job(config, dataset=name)
    freshness = Freshness()
    freshness.verify([job])
    if faults := _faults(freshness, job):
        raise UserError(f"{name}: {'; '.join(faults)}. Fetch it again first.")
    images = [path for key, path in job.outputs.items() if key in ("images", "test")]
    file = write(PARAMS, name, {path.name: Images(path).sha256 for path in images})
    with recorded(Dataset().job(load(), dataset=name)) as recording:  # the same files with the new parameters
        recording.facts["sha256"] = _sources(recording.before)
    print(f"{file}: {name} has sha256 {Images(job.first).sha256}; commit it with lineage/")


ACTIONS: dict[str, Callable[[Config, str], None]] = {"show": show, "pin": pin}


def write_contact_sheet(images: Path, path: Path) -> None:
    """Write a picture with images from the whole dataset at equal distances, in its order."""
    import numpy as np
    from PIL import Image

    from rtm.data.datasets import Images
    from rtm.reports.mosaics import sheet

    pixels = Images(images).pixels
    chosen = np.linspace(0, len(pixels) - 1, min(SHOWN, len(pixels))).round().astype(int)
    with atomic(path) as file:
        Image.fromarray(sheet(pixels[chosen], COLUMNS)).save(file, "PNG")


def _faults(freshness: Freshness, job: Job) -> list[str]:
    from rtm.data.check import problems
    from rtm.data.fetch import download_problems

    dataset = job.config.params.datasets[job.name]
    receipt = freshness.receipt(job) or {}
    faults = problems(dataset, job.first) if _is_here(job) else []
    faults += freshness.changed_files(receipt) if receipt else []
    downloads = job.config.shared / "downloads"
    return faults + download_problems(job.name, dataset, downloads, _sources(receipt))


def _is_here(job: Job) -> bool:
    return any(job.first.parent.glob("*"))


def _sources(receipt: dict[str, Any]) -> dict[str, str]:
    """The checksums of the files that a dataset was prepared from, and of its arrays."""
    return dict(receipt.get("made", {}).get("sha256", {}))


def _size(dataset: models.DatasetEntry) -> str:
    test = f" and {dataset.test.count:,} of the test split" if dataset.test else ""
    return f"{dataset.count:,} images of {dataset.resolution} x {dataset.resolution} px{test}"
