"""Images of any origin, and the way from them to a protocol's numbers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import save_file

from rtm.config import Config, load
from rtm.config.experiments import Protocol
from rtm.core.errors import UserError
from rtm.core.files import write_json
from rtm.core.layout import Layout
from rtm.metrics import evaluate, foreign, frechet_distance, inception_score, prdc
from rtm.metrics.evaluate import ImageSet, check_count, features_of, load_extractors, measure, write_reference
from rtm.metrics.features import Extractor, Features, FeatureSet
from rtm.metrics.foreign import evaluate_images
from rtm.metrics.images import load_images
from rtm.metrics.memorisation import distances_of_others, memorisation
from rtm.metrics.prdc import membership
from rtm.metrics.uncertainty import bootstrap, intervals
from rtm.models.digits import DigitClassifier

Pixels = NDArray[np.uint8]


def pixels(count: int, seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)


def write_folder(folder: Path, images: Pixels) -> Path:
    folder.mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{number:04}.png")
    return folder


def test_a_folder_an_array_and_an_archive_hold_the_same_images(tmp_path: Path) -> None:
    images = pixels(11)
    write_folder(tmp_path / "folder", images)
    (tmp_path / "folder" / "notes.txt").write_text("not an image")
    (tmp_path / "folder" / "._0000.png").write_text("what macOS adds")
    write_folder(tmp_path / "folder" / ".thumbnails", pixels(3, seed=1)[:, ::2, ::2])
    np.save(tmp_path / "images.npy", images)
    np.save(tmp_path / "first.npy", images.transpose(0, 3, 1, 2))
    np.save(tmp_path / "floats.npy", images.astype(np.float32) / 255)
    np.savez(tmp_path / "images.npz", images, labels=np.arange(11))
    for name in ("folder", "images.npy", "first.npy", "floats.npy", "images.npz"):
        loaded = load_images(tmp_path / name)
        assert len(loaded) == 11
        np.testing.assert_array_equal(loaded[0:11], images)
        np.testing.assert_array_equal(loaded[4:7], images[4:7])


def test_a_bad_image_is_named(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "folder", pixels(3))
    for name, image in {
        "grey": Image.new("L", (8, 8)),
        "alpha": Image.new("RGBA", (8, 8)),
        "large": Image.new("RGB", (9, 8)),
    }.items():
        image.save(folder / f"{name}.png")
        with pytest.raises(UserError, match=rf"{name}\.png is .*(RGB|9 x 8 px)"):
            load_images(folder)
        (folder / f"{name}.png").unlink()
    (folder / "text.png").write_text("no image at all")
    with pytest.raises(UserError, match=r"text\.png cannot be read as an image"):
        load_images(folder)


@pytest.mark.parametrize(
    "damage", [lambda whole: whole[: len(whole) // 2], lambda whole: whole.replace(b"IDAT", b"ID\0T")]
)
def test_a_damaged_image_is_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    folder = write_folder(tmp_path / "folder", pixels(3))
    (folder / "0001.png").write_bytes(damage((folder / "0001.png").read_bytes()))
    with pytest.raises(UserError, match=r"0001\.png cannot be read as an image"):
        load_images(folder)[0:3]


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((4, 8, 8), np.uint8), "shape"),
        (np.zeros((4, 8, 8, 1), np.uint8), "in colour"),
        (np.zeros((4, 8, 8, 4), np.uint8), "in colour"),
        (np.zeros((0, 8, 8, 3), np.uint8), "shape"),
        (np.zeros((4, 8, 8, 3), np.int64), "int64"),
        (np.eye(8, dtype=np.uint8)[None, :, :, None].repeat(3, axis=3), "only 0 and 1 as uint8"),
        (np.full((4, 8, 8, 3), -0.5, np.float32), "outside 0 to 1"),
        (np.full((4, 8, 8, 3), 255.0), "outside 0 to 1"),
        (np.full((4, 8, 8, 3), np.nan), "NaN"),
        (np.array([{"a": 1}]), "numpy file of numbers"),
    ],
)
def test_a_bad_array_is_named(tmp_path: Path, array: NDArray[np.generic], words: str) -> None:
    np.save(tmp_path / "bad.npy", array)
    with pytest.raises(UserError, match=rf"bad\.npy .*{words}"):
        load_images(tmp_path / "bad.npy")[0:4]


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "images.txt").write_text("")
    (tmp_path / "broken.npz").write_bytes(b"PK nothing")
    np.savez(tmp_path / "two.npz", a=pixels(2), b=pixels(2))
    np.savez(tmp_path / "objects.npz", np.array([{"a": 1}]))
    (tmp_path / "short.npz").write_bytes((tmp_path / "two.npz").read_bytes()[:300])
    for name, words in {
        "absent": "does not exist",
        "empty": "holds no images",
        "images.txt": "neither",
        "broken.npz": "damaged",
        "short.npz": "damaged",
        "objects.npz": "as a numpy file of numbers",
        "two.npz": "2 arrays",
    }.items():
        with pytest.raises(UserError, match=words):
            load_images(tmp_path / name)


def seen(count: int, seed: int, logits: bool = True, weights: str = "one") -> ImageSet:
    rng = np.random.default_rng(seed)
    quality = FeatureSet(
        rng.normal(size=(count, 6)).astype(np.float32),
        rng.normal(size=(count, 4)).astype(np.float32) if logits else None,
    )
    return ImageSet(quality, FeatureSet(rng.normal(size=(count, 5)).astype(np.float32), None), {"inception": weights})


PROTOCOL = Protocol(
    title="a test", extractor="inception", pr_extractor="vgg16", resize="tf1", k=3, strict=True, splits=2,
    samples={"default": 80}, pr_samples=50,
)  # fmt: skip


def test_a_protocol_uses_the_features_it_names() -> None:
    fake, real = seen(80, 0), seen(120, 1)
    found = measure(fake, real, PROTOCOL).metrics
    assert fake.quality.logits is not None
    score = inception_score(fake.quality.logits, 2)
    expected = {"fid": frechet_distance(real.quality.features, fake.quality.features)}
    expected |= {"is": score[0], "is_std": score[1]}
    expected |= prdc(real.coverage.features, fake.coverage.features[:50], k=3)
    assert found == pytest.approx(expected, abs=1e-6)


def test_the_digit_classifier_says_how_many_digits_can_be_read() -> None:
    logits = np.log([[0.95, 0.05], [0.91, 0.09], [0.89, 0.11], [0.5, 0.5]]).repeat(20, axis=0).astype(np.float32)
    fake = seen(80, 0)
    fake = replace(fake, quality=replace(fake.quality, logits=logits))
    chosen = PROTOCOL.model_copy(update={"extractor": "digit_classifier"})
    assert measure(fake, seen(80, 1), chosen).metrics["sure"] == 0.5
    assert "sure" not in measure(fake, seen(80, 1), PROTOCOL).metrics


def test_without_classes_there_is_no_inception_score() -> None:
    assert "is" not in measure(seen(80, 0, logits=False), seen(80, 1), PROTOCOL).metrics


class _Means(Extractor):
    """Features are an image's means; counts the images."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.digest, self.count = f"digest of {name}", 0

    def forward(self, images: torch.Tensor) -> Features:
        self.count += len(images)
        return Features(images.float().mean((2, 3)), None)


def test_each_network_runs_once_and_only_on_the_images_it_is_needed_for() -> None:
    two: dict[str, Any] = {name: _Means(name) for name in ("inception", "vgg16")}
    images = pixels(100)
    made = features_of(images, PROTOCOL, two, 80, PROTOCOL.pr_samples)
    assert (two["inception"].count, two["vgg16"].count) == (80, 50)
    assert (len(made.quality), len(made.coverage)) == (80, 50)
    np.testing.assert_allclose(made.coverage.features, images[:50].mean((1, 2)), rtol=1e-5)
    shared = PROTOCOL.model_copy(update={"pr_extractor": "inception"})
    one: dict[str, Any] = {"inception": _Means("inception")}
    made = features_of(images, shared, one, 80, shared.pr_samples)
    assert one["inception"].count == 80 and made.coverage is made.quality
    assert len(features_of(images, shared, one).quality) == 100


def test_too_few_samples_are_refused() -> None:
    check_count(pixels(80), 80)
    with pytest.raises(UserError, match="asks for 80 samples and there are 79"):
        check_count(pixels(79), 80)


def test_a_reference_by_other_weights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "extractor_of", lambda name, protocol, layout: _Means(name))
    right = {"inception": "digest of inception", "vgg16": "digest of vgg16"}
    loaded = load_extractors(PROTOCOL, Layout(tmp_path, tmp_path), replace(seen(9, 1), extractors=right))
    assert list(loaded) == ["inception", "vgg16"]
    with pytest.raises(UserError, match="other weights"):
        load_extractors(PROTOCOL, Layout(tmp_path, tmp_path), seen(9, 1))


def test_a_reference_comes_back_as_it_was_written(tmp_path: Path) -> None:
    written = seen(20, 2)
    for one in (written, replace(written, coverage=written.quality)):
        one.save(tmp_path / "digits" / "protocol.safetensors")
        read = ImageSet.load(tmp_path / "digits" / "protocol.safetensors")
        np.testing.assert_array_equal(read.quality.features, one.quality.features)
        np.testing.assert_array_equal(read.coverage.features, one.coverage.features)
        assert read.extractors == one.extractors
    with pytest.raises(UserError, match="rtm reference digits absent"):
        ImageSet.load(tmp_path / "digits" / "absent.safetensors")
    path = tmp_path / "digits" / "protocol.safetensors"
    for save in (lambda: path.write_bytes(path.read_bytes()[:-9]), lambda: save_file({"other": torch.zeros(2)}, path)):
        save()
        with pytest.raises(UserError, match=r"protocol\.safetensors is damaged .* `rtm reference digits protocol`"):
            ImageSet.load(path)


@pytest.fixture
def demo(tmp_path: Path) -> tuple[Config, Layout, Pixels]:
    """The protocol of the digits with a random network and a training set of 200 images."""
    config, layout, images = load("demo"), Layout(tmp_path, tmp_path), pixels(200)
    torch.manual_seed(0)
    layout.weights("digit_classifier").parent.mkdir()
    save_file(DigitClassifier().state_dict(), layout.weights("digit_classifier"))
    layout.images("digits").parent.mkdir(parents=True)
    np.save(layout.images("digits"), images)
    write_json(layout.images("digits").with_name("meta.json"), {"sha256": "made up"})
    protocol = config.params.protocols["digits"]
    config.params.protocols["digits"] = protocol.model_copy(update={"samples": {"default": 150}})
    write_reference(config, layout, "digits", "digits")
    return config, layout, images


def test_images_from_elsewhere_are_measured_like_our_own(demo: tuple[Config, Layout, Pixels], tmp_path: Path) -> None:
    config, layout, images = demo
    folder = write_folder(tmp_path / "samples", images[:150])
    result = evaluate_images(config, layout, folder, "digits", "digits", resamples=40, memorised=True)
    assert result["metrics"]["precision"] == 1 and result["samples"] == result["found"] == 150
    assert result["memorisation"]["copied"] == 1
    for name, (low, high) in result["intervals"].items():
        assert low <= result["metrics"][name] <= high
    np.save(tmp_path / "new.npy", pixels(150, seed=1))
    new = evaluate_images(config, layout, tmp_path / "new.npy", "digits", "digits", memorised=True)
    assert new["memorisation"]["copied"] < 0.2 and "intervals" not in new


def test_more_images_than_are_measured_give_a_warning(
    demo: tuple[Config, Layout, Pixels], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, layout, images = demo
    np.save(tmp_path / "many.npy", images[:160])
    result = evaluate_images(config, layout, tmp_path / "many.npy", "digits", "digits")
    assert (result["found"], result["samples"]) == (160, 150)
    assert "many.npy holds 160 images; only the first 150 are measured" in capsys.readouterr().err


@pytest.fixture
def nothing_extracted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("extracted before everything was checked")

    monkeypatch.setattr(foreign, "features_of", fail)


@pytest.mark.usefixtures("nothing_extracted")
@pytest.mark.parametrize("resize", ["none", "tf1"])
def test_images_of_another_size_are_refused(demo: tuple[Config, Layout, Pixels], tmp_path: Path, resize: str) -> None:
    config, layout, images = demo
    config.params.protocols["digits"] = config.params.protocols["digits"].model_copy(update={"resize": resize})
    np.save(tmp_path / "large.npy", images.repeat(4, axis=1).repeat(2, axis=2))
    np.save(tmp_path / "right.npy", images)
    for path, held_out in (("large.npy", None), ("right.npy", tmp_path / "large.npy")):
        with pytest.raises(UserError, match=r"large\.npy holds images of 16 x 32 px, the dataset of 8 x 8"):
            evaluate_images(config, layout, tmp_path / path, "digits", "digits", memorised=True, held_out=held_out)


@pytest.mark.usefixtures("nothing_extracted")
def test_what_will_be_refused_is_refused_before_anything_is_extracted(
    demo: tuple[Config, Layout, Pixels], tmp_path: Path
) -> None:
    config, layout, images = demo
    np.save(tmp_path / "few.npy", images[:149])
    with pytest.raises(UserError, match="asks for 150 samples and there are 149"):
        evaluate_images(config, layout, tmp_path / "few.npy", "digits", "digits")
    np.save(tmp_path / "enough.npy", images)
    with pytest.raises(UserError, match="Held-out images are in the training set"):
        held_out = tmp_path / "enough.npy"
        evaluate_images(config, layout, held_out, "digits", "digits", memorised=True, held_out=held_out)


@pytest.mark.parametrize("resamples", [-3, 1, 39])
def test_too_few_resamples_are_refused(demo: tuple[Config, Layout, Pixels], tmp_path: Path, resamples: int) -> None:
    config, layout, images = demo
    np.save(tmp_path / "images.npy", images)
    with pytest.raises(UserError, match=f"from {resamples} resamples are too rough; ask for 40 or more"):
        evaluate_images(config, layout, tmp_path / "images.npy", "digits", "digits", resamples)


def test_held_out_images_are_the_measure_of_copying() -> None:
    rng = np.random.default_rng(0)
    train, held_out, fresh = (rng.normal(size=(500, 8)).astype(np.float32) for _ in range(3))
    copies, others = train[:300] + np.float32(1e-3), distances_of_others(train, held_out)
    assert memorisation(copies, train, others)["copied"] == 1
    assert memorisation(fresh, train, others)["copied"] < 0.05
    assert memorisation(fresh, train, distances_of_others(train))["copied"] < 0.05
    half = memorisation(np.concatenate([copies, fresh[:300]]), train, others)
    assert half["copied"] == pytest.approx(0.5, abs=0.03)
    assert half["nearest_other"] == memorisation(fresh, train, others)["nearest_other"]
    with pytest.raises(UserError, match="Held-out images are in the training set"):
        distances_of_others(train, np.concatenate([held_out, train[:20] * np.float32(1 + 1e-7)]))
    with pytest.raises(UserError, match="Training images are there twice"):
        distances_of_others(np.concatenate([train, train[:20]]))


def test_bootstrap_of_a_mean_has_its_known_width() -> None:
    values = np.random.default_rng(0).normal(size=400)
    low, high = bootstrap(values.mean(), lambda index: float(values[index].mean()), 400, 2000)
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.1)
    assert low < values.mean() < high


def test_intervals_cover_every_metric_and_narrow_with_more_images() -> None:
    widths = []
    for count in (60, 600):
        fake, real = seen(count, 3), seen(count, 4)
        members = membership(real.coverage.features, fake.coverage.features, k=3)
        metrics = measure(fake, real, PROTOCOL.model_copy(update={"pr_samples": None})).metrics
        found = intervals(metrics, fake.quality, real.statistics, members, 2, 50)
        assert set(found) == {"fid", "is", "precision", "recall", "density", "coverage"}
        assert all(low <= metrics[name] <= high for name, (low, high) in found.items())
        widths.append({name: high - low for name, (low, high) in found.items()})
    assert all(widths[1][name] < widths[0][name] for name in ("fid", "is", "precision", "density"))
