"""A dataset: its files, its values, and subsets."""

import pytest
from support import PARAMS

from rtm.config import load
from rtm.core.errors import UserError
from rtm.stages.base import Job, Recording
from rtm.stages.dataset import Dataset


def dataset(name: str, scale: str = "paper") -> Job:
    return Dataset().job(load(scale, PARAMS), dataset=name)


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("cifar10", ["images", "labels", "test", "test_labels", "meta"]),
        ("celebahq", ["images", "meta"]),
    ],
)
def test_a_dataset_makes_the_files_that_it_has(name: str, files: list[str]) -> None:
    assert list(dataset(name).outputs) == files
    assert dataset(name).first.as_posix() == f"data/{name}/images.npy"


def test_a_subset_reads_its_whole() -> None:
    subset = dataset("cifar10_500", "desk")
    assert [before.id for before in subset.inputs] == ["dataset/cifar10"]
    assert subset.values["of"] == "cifar10"
    assert not {"of", "label"} & dataset("celebahq").values.keys()
    assert dataset("celebahq").inputs == ()


def test_titles_and_sources_are_no_values() -> None:
    assert not {"title", "sources", "licence", "citation", "class_names"} & dataset("cifar10").values.keys()
    assert dataset("digits").values["kind"] == "digits"


@pytest.mark.parametrize(("name", "message"), [("digits", "made by code"), ("cifar10_500", "taken from cifar10")])
def test_what_is_made_here_has_no_source(name: str, message: str, tmp_path: object) -> None:
    job = dataset(name)
    with pytest.raises(UserError, match=rf"{name} is {message}.*leave --source out"):
        job.stage.make(job, Recording("", {}), source=tmp_path)
