"""rtm.evaluate: folders, files and arrays against each other; tests/test_light.py runs it without the pipeline."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import save_file
from support import PARAMS

import rtm
from rtm.config import load
from rtm.core.errors import UserError
from rtm.metrics import standalone
from rtm.metrics.standalone import PROTOCOLS, protocol_named
from rtm.models.digits import DigitClassifier


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("weights").mkdir()
    save_file(DigitClassifier().state_dict(), "weights/digit_classifier.safetensors")
    return np.random.default_rng(0).integers(0, 256, (60, 8, 8, 3), dtype=np.uint8)


def test_a_folder_a_file_and_an_array_of_the_same_images_have_the_same_numbers(images: np.ndarray) -> None:
    Path("a").mkdir()
    for place, image in enumerate(images[:30]):
        Image.fromarray(image).save(f"a/{place:02}.png")
    np.save("a.npy", images[:30])
    results = [rtm.evaluate(each, images[30:], "digits").as_dict() for each in ("a", Path("a.npy"), images[:30])]
    assert results[0]["metrics"] == results[1]["metrics"] == results[2]["metrics"]
    assert results[0]["samples"] == 30 and "off_protocol" in results[0]


def test_the_protocols_are_those_of_params() -> None:
    assert PROTOCOLS.read_bytes() == (PARAMS / "protocols.yaml").read_bytes()
    for name, protocol in load("paper").params.protocols.items():
        assert protocol_named(name) == protocol
    with pytest.raises(UserError, match="choose one of paper"):
        protocol_named("papers")


def test_missing_weights_are_fetched_into_the_users_cache(images: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = []
    monkeypatch.setattr(standalone, "fetch_network", lambda name, path, downloads: fetched.append((name, path)))
    weights = standalone.weights_of(protocol_named("paper"))
    place = Path("cache/rtm/weights/inception.safetensors").absolute()
    assert weights == {"inception": place} and ("inception", place) in fetched


def test_an_array_of_something_else_is_refused(images: np.ndarray) -> None:
    with pytest.raises(UserError, match="images are float32"):
        rtm.evaluate(images.astype(np.float32), images, "digits")
