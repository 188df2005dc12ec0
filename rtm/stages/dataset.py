"""Prepared images."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rtm.config.classes import is_own
from rtm.core.errors import UserError
from rtm.stages.base import Job, Recording, Stage, Values
from rtm.stages.values import source as source_of

# names, and the sources: checksums identify their content
UNREAD = {"title", "class_names", "sources", "licence", "citation"}


class Dataset(Stage):
    """Fetch and prepare the images of a dataset."""

    parts = ("dataset",)
    files = {
        "images": "data/{dataset}/images.npy",  # uint8, N x H x W x 3
        "labels": "data/{dataset}/labels.npy",  # with classes
        "test": "data/{dataset}/test_images.npy",  # images that no training sees, if the dataset has them
        "test_labels": "data/{dataset}/test_labels.npy",
        "meta": "data/{dataset}/meta.json",  # facts, and the sha256 of the images
    }
    reads = {"dataset": "images"}  # a subset reads its whole
    folder = "shared"
    keeper = "dvc"
    apart = ("test", "test_labels", "meta")
    optional = ("labels", "test", "test_labels")

    def outputs(self, job: Job) -> Iterable[str]:
        dataset = job.config.params.datasets[job.names["dataset"]]
        yield "images"
        if dataset.classes:
            yield "labels"
        if dataset.test:
            yield from ("test", "test_labels")
        yield "meta"

    def needs(self, job: Job) -> Iterable[Job]:
        whole = job.config.params.datasets[job.names["dataset"]].of
        return [self.job(job.config, dataset=whole)] if whole else []

    def values(self, job: Job) -> Values:
        dataset = job.config.params.datasets[job.names["dataset"]]
        unset = set() if dataset.of else {"of", "label"}
        values = dataset.model_dump(mode="json", exclude=UNREAD | unset)
        if not values["options"]:
            del values["options"]
        return values | (source_of(dataset.kind) if is_own(dataset.kind) else {})

    def code(self, job: Job) -> tuple[str, ...]:
        return ("rtm.data.prepare",)

    def make(
        self, job: Job, recording: Recording, source: Path | None = None, wait: bool = False, **options: Any
    ) -> None:
        from rtm.data.fetch import PREPARED, fetch_dataset

        name = job.names["dataset"]
        dataset = job.config.params.datasets[name]
        if source and (dataset.made_here or dataset.of):
            made = f"taken from {dataset.of}" if dataset.of else "made by code"
            raise UserError(f"{name} is {made} at scale {job.config.scale_name}; leave --source out.")
        seen = dict(recording.before.get("made", {}).get("sha256", {}))
        if recording.before.get("fingerprint") != recording.fingerprint:  # it was prepared in another way
            seen = {file: sha256 for file, sha256 in seen.items() if file not in PREPARED}
        downloads = job.config.shared / "downloads"
        sha256 = fetch_dataset(name, dataset, job.outputs["images"], downloads, source, seen, wait)
        recording.facts["sha256"] = sha256
