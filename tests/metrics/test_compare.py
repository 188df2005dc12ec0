"""Any images against any others: the numbers, their marks, and refusals before any features are extracted."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.demo_images import Demo
from support.images import pixels

from rtm.cli.evaluating import WIDTH, lines_of
from rtm.core.errors import UserError
from rtm.metrics import compare as comparing
from rtm.metrics import frechet_distance
from rtm.metrics.compare import compare
from rtm.metrics.features import DigitsExtractor, extract
from rtm.metrics.images import some_of
from rtm.metrics.sets import find_reference, find_set


def compared(demo: Demo, one: str, other: str | None = None, **options: Any) -> dict[str, Any]:
    config, layout, _ = demo
    first = find_set(config, layout, one, 0)
    second = find_reference(config, layout, other, first, config.params.protocols["digits"])
    return compare(config, layout, first, second, "digits", **options)


def test_the_numbers_are_those_of_the_features(demo: Demo) -> None:
    result = compared(demo, "fakes.npy", "digits")
    extractor = DigitsExtractor(demo[1].weights("digit_classifier"))
    rows = some_of(170, 150, 0)
    real, fake = (extract(x, extractor, 64, "cpu").features for x in (demo[2], pixels(170, seed=1)[rows]))
    assert result["metrics"]["fid"] == pytest.approx(frechet_distance(real, fake), abs=1e-5)
    assert result["off_protocol"] == [] and result["subset_seed"] == 0
    assert (result["images"]["found"], result["samples"], result["reference"]["images"]) == (170, 150, 200)
    for name, (low, high) in result["intervals"].items():
        assert low <= result["metrics"][name] <= high
    same = compared(demo, "fakes.npy", "real.npy")
    assert same["metrics"] == result["metrics"] and same["reference"]["sha256"] == result["reference"]["sha256"]
    assert same["off_protocol"] == ["compared with real.npy instead of a dataset's reference"]


def test_a_folder_and_an_array_of_the_same_images_are_the_same(demo: Demo) -> None:
    Path("folder").mkdir()
    for number, image in enumerate(pixels(170, seed=1)):
        Image.fromarray(image).save(f"folder/{number:04}.png")
    folder, array = (compared(demo, name, "digits") for name in ("folder", "fakes.npy"))
    assert folder["metrics"] == array["metrics"] and folder["images"]["sha256"] == array["images"]["sha256"]


def test_another_number_is_measured_on_request_and_marked(demo: Demo) -> None:
    result = compared(demo, "fakes.npy", "digits", samples=60, seed=3)
    assert result["off_protocol"] == ["60 images instead of 150"]
    assert (result["samples"], result["subset_seed"]) == (60, 3)
    other = compared(demo, "fakes.npy", "digits", samples=60, seed=4)
    assert other["images"]["sha256"] != result["images"]["sha256"]
    lines = list(lines_of(result))
    assert "off protocol: 60 images instead of 150" in lines
    assert max(map(len, "\n".join(lines).splitlines())) <= WIDTH
    assert lines[0].startswith("fakes.npy (60 of its 170 images) against digits (200 images)")
    assert any(line.startswith("FID") and " to " in line for line in lines)


def test_images_that_are_the_same_are_noted(demo: Demo) -> None:
    """Reference images among the measured ones, and repeated images, make the numbers look better than they are."""
    assert compared(demo, "fakes.npy", "digits")["notes"] == []
    np.save("mixed.npy", np.concatenate([pixels(120, seed=1), demo[2][:30], pixels(5, seed=1)]))
    result = compared(demo, "mixed.npy", "digits", samples=155)
    shared, repeated = result["notes"]
    assert shared == "30 images of mixed.npy are in digits too, bit for bit"
    assert repeated.startswith("5 images of mixed.npy repeat others of it")
    assert f"note: {shared}" in lines_of(result)
    same = compared(demo, "real.npy", "digits", samples=200)
    assert same["notes"] == ["200 images of real.npy are in digits too, bit for bit"] and same["metrics"]["fid"] < 1e-3


def test_every_line_fits_however_long_the_names_are(demo: Demo) -> None:
    place = Path("a folder with a long name, and more of it" * 3)
    place.mkdir()
    np.save(place / "real.npy", demo[2])
    lines = lines_of(compared(demo, "fakes.npy", f"{place}/real.npy", samples=60))
    assert max(map(len, "\n".join(lines).splitlines())) <= WIDTH


def test_precision_and_recall_of_a_few_see_every_class_of_a_sorted_folder(demo: Demo) -> None:
    config, layout, _ = demo
    protocol = config.params.protocols["digits"]
    config.params.protocols["digits"] = protocol.model_copy(update={"pr_samples": 60})
    np.save("sorted.npy", pixels(150))
    found = find_set(config, layout, "sorted.npy", 0)
    rows = comparing.chosen(found, 150, 150, 0, config.params.protocols["digits"]).rows
    assert sorted(rows) == list(range(150)) and 20 <= sum(row < 75 for row in rows[:60]) <= 40


def test_a_protocol_may_compare_with_other_images_than_were_trained_on(demo: Demo) -> None:
    result = compared(demo, "fakes.npy", "digits300", memorised=True)
    assert (result["reference"]["name"], result["samples"], result["off_protocol"]) == ("digits_rest", 120, [])
    assert (result["train"]["name"], result["held_out"]["name"]) == ("digits300", "digits_rest")
    literal = compared(demo, "fakes.npy", "digits300:train", samples=120)
    assert literal["reference"]["name"] == "digits300" and len(literal["off_protocol"]) == 1


@pytest.fixture
def nothing_extracted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("extracted before everything was checked")

    for name in ("features_of", "reference_features", "load_extractors"):
        monkeypatch.setattr(comparing, name, fail)


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
        ("fakes.npy", None, {}, "Say what fakes.npy is compared with"),
        ("nothing", "digits", {}, "nothing is neither a file or folder here nor a name"),
        ("fakes.npy", "digits:test", {}, "digits has no test images"),
        ("fakes.npy", "digits:valid", {}, "digits has the parts train and test, not 'valid'"),
        ("digits_rtm:H99", "digits", {}, "digits_rtm has no variant 'H99'; choose one of native"),
        ("digits_rtm", "digits", {}, "native.npy is missing; make it with `rtm sample digits_rtm"),
    ],
)
def test_what_will_be_refused_is_refused_before_anything_is_extracted(
    demo: Demo, one: str, other: str | None, options: dict[str, Any], words: str
) -> None:
    np.save("few.npy", pixels(149))
    np.save("two.npy", pixels(2))
    np.save("large.npy", pixels(200).repeat(4, axis=1).repeat(2, axis=2))
    with pytest.raises(UserError, match=words):
        compared(demo, one, other, **options)


def test_held_out_images_of_another_size_are_refused(demo: Demo) -> None:
    np.save("large.npy", pixels(200).repeat(2, axis=1))
    with pytest.raises(UserError, match=r"large\.npy of 8 x 16 px"):
        unseen = find_set(demo[0], demo[1], "large.npy", 0)
        compared(demo, "fakes.npy", "digits", memorised=True, held_out=unseen)


def test_copies_are_found_and_a_refusal_leaves_the_metrics(demo: Demo) -> None:
    result = compared(demo, "real.npy", "digits", samples=200, memorised=True)
    assert result["memorisation"]["near_duplicates"] == 1
    assert compared(demo, "fakes.npy", "digits", memorised=True)["memorisation"]["near_duplicates"] < 0.05
    unseen = find_set(demo[0], demo[1], "real.npy", 0)
    refused = compared(demo, "fakes.npy", "digits", memorised=True, held_out=unseen)
    assert "fid" in refused["metrics"]
    assert "100% of the held-out images are in the training set" in refused["memorisation"]["says"]
    assert any("100% of the held-out" in line for line in lines_of(refused))
