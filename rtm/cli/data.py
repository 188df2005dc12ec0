"""`rtm fetch` of datasets and `rtm data`: list, check and show the datasets on this machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rtm.config import Config, load
from rtm.config.experiments import Dataset
from rtm.config.loading import PARAMS, pick
from rtm.core.errors import UserError
from rtm.core.files import atomic
from rtm.core.layout import Layout
from rtm.lineage.job import Job
from rtm.lineage.receipts import Ledger
from rtm.lineage.recording import recorded
from rtm.pipeline.graph import jobs

SHOWN, COLUMNS = 64, 8  # images of a contact sheet
ACTIONS = ("check", "show", "pin")
USAGE = """\
rtm data check [NAME ...]   read the datasets and downloads that are here, and fail if one is not the recorded one
rtm data show NAME ...      write a contact sheet, and print counts, sizes, licence and citation
rtm data pin NAME ...       write the sha256 of the images that are here into params/datasets.yaml"""


def fetch(config: Config, layout: Layout, name: str, source: Path | None, wait: bool) -> None:
    """Get and prepare a dataset; its receipt keeps the sha256 of all source files."""
    from rtm.data.fetch import PREPARED, fetch_dataset

    dataset = config.params.datasets[name]
    if source and (dataset.made_here or dataset.of):
        made = f"taken from {dataset.of}" if dataset.of else "made by code"
        raise UserError(f"{name} is {made} at scale {config.scale_name}; leave --source out.")
    with recorded(jobs(config)[f"fetch/{name}"]) as recording:
        seen = _seen(recording.before)
        if recording.before.get("fingerprint") != recording.fingerprint:  # it was prepared in another way
            seen = {file: sha256 for file, sha256 in seen.items() if file not in PREPARED}
        images, downloads = layout.images(name), layout.downloads()
        recording.facts["sha256"] = fetch_dataset(name, dataset, images, downloads, source, seen, wait)
    print(f"{images}: {_size(dataset)}; version it with `dvc add {images.parent}`")


def data(config: Config, layout: Layout, action: str, names: Sequence[str]) -> None:
    datasets = config.params.datasets
    chosen = {name: pick(datasets, name, "dataset") for name in names}
    if action == "check":
        check(config, layout, chosen or datasets, asked=bool(chosen))
    elif not chosen:
        raise UserError(f"Name a dataset, e.g. `rtm data {action} digits`.")
    for name, dataset in chosen.items():
        if action == "show":
            show(layout, name, dataset)
        elif action == "pin":
            pin(config, layout, name, dataset)


def check(config: Config, layout: Layout, datasets: dict[str, Dataset], asked: bool) -> None:
    """Print a line for each dataset. An error at the end names the faulty ones, and requested ones that are missing."""
    ledger, graph = Ledger(), jobs(config)
    ledger.hashes.known.clear()  # so that every file is read again
    wrong, absent, width = [], [], max([11, *map(len, datasets)])
    for name, dataset in datasets.items():
        found = _problems(ledger, graph[f"fetch/{name}"], layout, name, dataset)
        here = _is_here(layout, name)
        state = "wrong" if found else "good" if here else "not here"
        print(f"{name:<{width}} {state:<9} {_size(dataset) if here else _way(config, layout, name)}")
        absent += [] if here else [name]
        wrong += [f"{name}: {problem}." for problem in found]
    if wrong:
        raise UserError(" ".join(wrong) + " Fetch it again, or bring it back with `dvc checkout`.")
    if asked and absent:
        raise UserError(f"Not here: {', '.join(absent)}; the lines above say how to get it.")


def show(layout: Layout, name: str, dataset: Dataset) -> None:
    from rtm.data.check import facts

    shown = facts(dataset, layout.images(name))
    path = layout.contact_sheet(name)
    write_contact_sheet(layout.images(name), path)
    print(f"{dataset.title} ({name})")
    for title, value in {**shown, "sheet": str(path)}.items():
        print(f"  {title:<12} {value}")


def pin(config: Config, layout: Layout, name: str, dataset: Dataset) -> None:
    """Write the sha256 of the present images into params/. Results that were made from them stay fresh."""
    from rtm.data.datasets import Images
    from rtm.data.pins import pin as write

    if config.scale_name != "paper":
        raise UserError("`rtm data pin` is for the datasets of params/datasets.yaml; leave --scale out.")
    job, ledger = jobs(config)[f"fetch/{name}"], Ledger()
    ledger.verify(job)
    if found := _problems(ledger, job, layout, name, dataset):
        raise UserError(f"{name}: {'; '.join(found)}. Fetch it again first.")
    paths = [layout.images(name), *([layout.test_images(name)] if dataset.test else [])]
    file = write(PARAMS, name, {path.name: Images(path).sha256 for path in paths})
    with recorded(jobs(load())[f"fetch/{name}"]) as recording:  # a receipt for the same files with the new parameters
        recording.facts["sha256"] = _seen(recording.before)
    print(f"{file}: {name} has sha256 {Images(paths[0]).sha256}; commit it with lineage/")


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


def _problems(ledger: Ledger, job: Job, layout: Layout, name: str, dataset: Dataset) -> list[str]:
    from rtm.data.check import problems
    from rtm.data.fetch import download_problems

    receipt = ledger.receipt(job) or {}
    images = layout.images(name)
    found = problems(dataset, images) if _is_here(layout, name) else []
    found += ledger.changed_outputs(receipt) if receipt else []
    return found + download_problems(name, dataset, layout.downloads(), _seen(receipt))


def _is_here(layout: Layout, name: str) -> bool:
    return any(layout.images(name).parent.glob("*"))


def _seen(receipt: dict[str, Any]) -> dict[str, str]:
    return dict(receipt.get("made", {}).get("sha256", {}))


def _size(dataset: Dataset) -> str:
    test = f" and {dataset.test.count:,} of the test split" if dataset.test else ""
    return f"{dataset.count:,} images of {dataset.resolution} x {dataset.resolution} px{test}"


def _way(config: Config, layout: Layout, name: str) -> str:
    return f"`{config.fetching(name)}`, or `dvc pull {layout.images(name).parent}`"
