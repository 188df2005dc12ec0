"""Any images against any others: the numbers, their marks, and refusals before any features are extracted."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.demo_images import Demo
from support.images import pixels

from rtm.cli.image_sets import find_reference, find_set, held_out_of, training_set
from rtm.core.errors import UserError
from rtm.metrics import compare as module
from rtm.metrics.compare import compare, selection
from rtm.metrics.digits import DigitsExtractor
from rtm.metrics.features import extract
from rtm.metrics.fid import frechet_distance
from rtm.metrics.images import some_of
from rtm.metrics.result import WIDTH, lines_of
from rtm.stages.network import Network


def compared(
    demo: Demo,
    one: str,
    other: str = "digits",
    copies: bool = False,
    held_out: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    config = demo.config
    protocol = config.params.protocols["digits"]
    weights = {"digit_classifier": Network().path(config, "weights", network="digit_classifier")}
    source = find_set(config, one, 0)
    reference = find_reference(config, other, source, protocol)
    if copies:
        options["train"] = training_set(config, reference)
        options["held_out"] = find_set(config, held_out, 0) if held_out else held_out_of(config, reference)
    kept = config.kept_features
    return compare(source, reference, "digits", protocol, weights, kept, **options)


def test_the_numbers_are_those_of_the_features(demo: Demo) -> None:
    result = compared(demo, "fakes.npy")
    extractor = DigitsExtractor(Network().path(demo.config, "weights", network="digit_classifier"))
    rows = some_of(170, 150, 0)
    real = extract(demo.images, extractor, 64, "cpu").features
    fake = extract(pixels(170, seed=1)[rows], extractor, 64, "cpu").features
    assert result["metrics"]["fid"] == pytest.approx(frechet_distance(real, fake), abs=1e-5)
    assert result["off_protocol"] == []
    assert result["subset_seed"] == 0
    assert (result["images"]["found"], result["samples"], result["reference"]["images"]) == (170, 150, 200)
    for name, (low, high) in result["intervals"].items():
        assert low <= result["metrics"][name] <= high
    same = compared(demo, "fakes.npy", "real.npy")
    assert same["metrics"] == result["metrics"]
    assert same["reference"]["sha256"] == result["reference"]["sha256"]
    assert same["off_protocol"] == ["compared with real.npy instead of a dataset's reference"]
    assert (result["dataset"], same["dataset"], result["protocol"]) == ("digits", None, "digits")


def test_a_folder_and_an_array_of_the_same_images_are_the_same(demo: Demo) -> None:
    Path("folder").mkdir()
    for number, image in enumerate(pixels(170, seed=1)):
        Image.fromarray(image).save(f"folder/{number:04}.png")
    folder = compared(demo, "folder")
    array = compared(demo, "fakes.npy")
    assert folder["metrics"] == array["metrics"]
    assert folder["images"]["sha256"] == array["images"]["sha256"]


def test_another_number_is_measured_on_request_and_marked(demo: Demo) -> None:
    result = compared(demo, "fakes.npy", samples=60, seed=3)
    assert result["off_protocol"] == ["60 images instead of 150"]
    assert (result["samples"], result["subset_seed"]) == (60, 3)
    other = compared(demo, "fakes.npy", samples=60, seed=4)
    assert other["images"]["sha256"] != result["images"]["sha256"]
    lines = list(lines_of(result))
    assert "off protocol: 60 images instead of 150" in lines
    assert lines[0].startswith("fakes.npy (60 of its 170 images) against digits (200 images)")


def test_images_that_are_the_same_are_noted(demo: Demo) -> None:
    """Reference images among the measured ones, and repeated images, make the numbers look better than they are."""
    assert compared(demo, "fakes.npy")["notes"] == []
    np.save("mixed.npy", np.concatenate([pixels(120, seed=1), demo.images[:30], pixels(5, seed=1)]))
    result = compared(demo, "mixed.npy", samples=155)
    shared, repeated = result["notes"]
    assert shared == "30 images of mixed.npy are in digits too, bit for bit"
    assert repeated.startswith("5 images of mixed.npy repeat others of it")
    assert f"note: {shared}" in lines_of(result)
    same = compared(demo, "real.npy", samples=200)
    assert same["notes"] == ["200 images of real.npy are in digits too, bit for bit"]
    assert same["metrics"]["fid"] < 1e-3


def test_every_line_fits_however_long_the_names_are(demo: Demo) -> None:
    place = Path("a folder with a long name, and more of it" * 3)
    place.mkdir()
    np.save(place / "real.npy", demo.images)
    lines = "\n".join(lines_of(compared(demo, "fakes.npy", f"{place}/real.npy", samples=60)))
    assert max(map(len, lines.splitlines())) <= WIDTH


def test_precision_and_recall_of_a_few_see_every_class_of_a_sorted_folder(demo: Demo) -> None:
    protocol = demo.config.params.protocols["digits"].model_copy(update={"pr_samples": 60})
    np.save("sorted.npy", pixels(150))
    rows = selection(find_set(demo.config, "sorted.npy", 0), 150, 150, 0, protocol).rows
    assert sorted(rows) == list(range(150))
    assert 20 <= sum(row < 75 for row in rows[:60]) <= 40


def test_a_protocol_may_compare_with_other_images_than_were_trained_on(demo: Demo) -> None:
    result = compared(demo, "fakes.npy", "digits300", copies=True)
    assert (result["reference"]["name"], result["samples"], result["off_protocol"]) == ("digits_rest", 120, [])
    assert (result["train"]["name"], result["held_out"]["name"]) == ("digits300", "digits_rest")
    literal = compared(demo, "fakes.npy", "digits300:train", samples=120)
    assert literal["reference"]["name"] == "digits300"
    assert len(literal["off_protocol"]) == 1


@pytest.fixture
def nothing_extracted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("extracted before everything was checked")

    monkeypatch.setattr(module, "Networks", fail)


@pytest.mark.usefixtures("nothing_extracted")
@pytest.mark.parametrize(
    ("one", "other", "options", "words"),
    [
        ("few.npy", "digits", {}, r"asks for 150 images and few.npy has 149; `--samples 149` measures those"),
        ("fakes.npy", "digits", {"samples": 171}, "--samples asks for 171 and fakes.npy has 170"),
        ("fakes.npy", "digits", {"samples": 9}, "need at least 10 images, not 9"),
        ("fakes.npy", "digits", {"samples": 0}, "need at least 10 images, not 0"),
        ("large.npy", "digits", {}, r"large\.npy of 16 x 32 px and digits of 8 x 8 px: resize"),
        ("fakes.npy", "two.npy", {}, "two.npy has too few images, 2; compare with at least 4"),
        ("fakes.npy", "digits", {"copies": True, "held_out": "large.npy"}, r"large\.npy of 16 x 32 px"),
    ],
)
def test_what_will_be_refused_is_refused_before_anything_is_extracted(
    demo: Demo,
    one: str,
    other: str,
    options: dict[str, Any],
    words: str,
) -> None:
    np.save("few.npy", pixels(149))
    np.save("two.npy", pixels(2))
    np.save("large.npy", pixels(200).repeat(4, axis=1).repeat(2, axis=2))
    with pytest.raises(UserError, match=words):
        compared(demo, one, other, **options)


def test_copies_are_found_and_a_refusal_leaves_the_metrics(demo: Demo) -> None:
    result = compared(demo, "real.npy", samples=200, copies=True)
    assert result["memorisation"]["near_duplicates"] == 1
    assert compared(demo, "fakes.npy", copies=True)["memorisation"]["near_duplicates"] < 0.05
    refused = compared(demo, "fakes.npy", copies=True, held_out="real.npy")
    assert "fid" in refused["metrics"]
    assert "100% of the held-out images are in the training set" in refused["memorisation"]["says"]
    assert any("100% of the held-out" in line for line in lines_of(refused))
