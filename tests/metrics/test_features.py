"""Features: equal to torch-fidelity's network and to the resizes that the protocols name."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch_fidelity
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.data import TensorDataset
from torch_fidelity import feature_extractor_inceptionv3 as theirs
from torch_fidelity.interpolate_compat_tensorflow import interpolate_bilinear_2d_like_tensorflow1x
from torchvision import transforms

from rtm.core.errors import UserError
from rtm.data.weights import _state_dict
from rtm.metrics import frechet_distance, inception_score, prdc
from rtm.metrics.features import DigitsExtractor, extract
from rtm.metrics.inception import InceptionExtractor
from rtm.metrics.resize import resized
from rtm.metrics.vgg16 import VGG16Extractor
from rtm.models import vgg16
from rtm.models.digits import DigitClassifier

Pixels = NDArray[np.uint8]
REAL = Path(os.environ.get("RTM_WEIGHTS", "weights")) / "inception.safetensors"
KNOWN_FEATURES, KNOWN_NORM = [0.2115362, 0.0, 0.0, 0.1133170, 0.0114864], 15.5682278


def pictures(count: int, side: int, seed: int) -> Pixels:
    """Smooth random images."""
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (4 * count, 4, 3), dtype=np.uint8))
    return np.array(small.resize((side, side * count), Image.Resampling.BICUBIC)).reshape(count, side, side, 3)


def randomised(network: nn.Module) -> None:
    """Weights that keep the size of the signal through all layers, and batch norms that do something."""
    generator = torch.Generator().manual_seed(0)
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            fan_in = module.weight[0].numel()
            module.weight.data = torch.randn(module.weight.shape, generator=generator) * math.sqrt(2 / fan_in)
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight, module.running_var):
                tensor.data = 0.8 + 0.4 * torch.rand(tensor.shape, generator=generator)  # type: ignore[union-attr]
            for tensor in (module.bias, module.running_mean):
                tensor.data = 0.1 * torch.randn(tensor.shape, generator=generator)  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """Weights for torch-fidelity's Inception and the same for ours: the real ones where they are, random ones else."""
    folder = tmp_path_factory.mktemp("weights")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(theirs, "load_state_dict_from_url", lambda *_, **__: {})
        patch.setattr(theirs.FeatureExtractorInceptionV3, "load_state_dict", lambda *_: None)
        network = theirs.FeatureExtractorInceptionV3("random", ["2048"])
    randomised(network)
    state = network.state_dict() | (load_file(REAL) if REAL.exists() else {})
    torch.save(state, folder / "theirs.pth")
    save_file(_state_dict(folder / "theirs.pth"), folder / "inception.safetensors")
    yield folder / "theirs.pth", folder / "inception.safetensors"


@pytest.mark.slow(seconds=4)
def test_inception_equals_torch_fidelity(networks: tuple[Path, Path]) -> None:
    """Folded batch norms, channels-last and our resize change nothing."""
    names = ["2048", "logits_unbiased", "logits"]
    network = theirs.FeatureExtractorInceptionV3("theirs", names, feature_extractor_weights_path=str(networks[0]))
    images = torch.from_numpy(np.concatenate([pictures(2, 32, 0), pictures(1, 32, 1) // 3])).permute(0, 3, 1, 2)
    with torch.inference_mode():
        features, unbiased, _ = network(images)
        ours = InceptionExtractor(networks[1])(images)
    assert features.std() > 0.01
    assert (ours.features - features).abs().max() <= 1e-5 * features.abs().max()
    assert (ours.logits - unbiased).abs().max() <= 1e-5 * unbiased.abs().max()


@pytest.mark.slow(seconds=10)
def test_metrics_equal_torch_fidelity_from_images_to_numbers(networks: tuple[Path, Path]) -> None:
    fake, real = pictures(6, 32, 2), pictures(7, 32, 3)[:, ::-1].copy()
    inputs = [_Images(torch.from_numpy(x).permute(0, 3, 1, 2)) for x in (fake, real)]
    expected = torch_fidelity.calculate_metrics(
        input1=inputs[0],
        input2=inputs[1],
        fid=True,
        isc=True,
        prc=True,
        isc_splits=2,
        prc_neighborhood=3,
        feature_extractor="inception-v3-compat",
        feature_extractor_weights_path=str(networks[0]),
        cuda=False,
        cache=False,
        verbose=False,
        save_cpu_ram=True,
        batch_size=5,
    )
    extractor = InceptionExtractor(networks[1])
    seen = [extract(x, extractor, 4, "cpu") for x in (fake, real)]
    assert seen[0].logits is not None
    fid = frechet_distance(seen[1].features, seen[0].features)
    score = inception_score(seen[0].logits, 2)
    found = prdc(seen[1].features, seen[0].features, k=3, strict=False)
    assert fid == pytest.approx(expected["frechet_inception_distance"], rel=1e-4)
    assert score[0] == pytest.approx(expected["inception_score_mean"], rel=1e-4)
    assert found["precision"] == pytest.approx(expected["precision"])
    assert found["recall"] == pytest.approx(expected["recall"])


class _Images(TensorDataset):
    def __getitem__(self, index: int) -> Tensor:  # type: ignore[override]
        return self.tensors[0][index]


def test_studiogan_keeps_the_bias_and_has_its_own_preprocessing(networks: tuple[Path, Path]) -> None:
    tf1, studiogan = (InceptionExtractor(networks[1], resize) for resize in ("tf1", "torch"))
    images = torch.from_numpy(pictures(1, 48, 4)).permute(0, 3, 1, 2)
    with torch.inference_mode():
        x = nn.functional.interpolate(images.float(), (299, 299), mode="bilinear", align_corners=False)
        features = studiogan.network((x / 255 - 0.5) / 0.5)
        found = studiogan(images)
    head = load_file(networks[1])
    assert torch.allclose(found.features, features, rtol=1e-4, atol=1e-5)
    assert found.logits is not None
    assert torch.allclose(found.logits, features @ head["fc.weight"].T + head["fc.bias"], rtol=1e-4, atol=1e-4)
    assert studiogan.digest != tf1.digest


def test_real_weights_give_the_known_features() -> None:
    """Features of the published TorchScript network for one image."""
    if not REAL.exists():
        missing = f"{REAL} is missing; get it with `rtm fetch inception`"
        if os.environ.get("REQUIRE_WEIGHTS"):
            pytest.fail(missing)
        pytest.skip(missing)
    position = torch.arange(3 * 32 * 32).reshape(1, 3, 32, 32)
    image = ((position * 37 + position // 32 * 11) % 256).to(torch.uint8)
    with torch.inference_mode():
        features = InceptionExtractor(REAL)(image).features[0]
    assert features[:5].tolist() == pytest.approx(KNOWN_FEATURES, abs=2e-5)
    assert features.norm().item() == pytest.approx(KNOWN_NORM, rel=1e-5)


@pytest.mark.parametrize("size", [(32, 32), (512, 300), (299, 299), (64, 48)])
def test_resizes_equal_those_they_are_named_after(size: tuple[int, int]) -> None:
    rng = np.random.default_rng(5)
    pixels = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
    image = torch.from_numpy(pixels).permute(2, 0, 1)[None]
    theirs_tf1 = interpolate_bilinear_2d_like_tensorflow1x(image.float(), size=(299, 299), align_corners=False)
    assert torch.allclose(resized(image, "tf1", 299), theirs_tf1, atol=2e-3)  # of 255; their positions are float32
    half = nn.functional.interpolate(image.float(), (299, 299), mode="bilinear", align_corners=False)
    assert torch.allclose(resized(image, "torch", 299), half, atol=2e-3)
    channels = [Image.fromarray(pixels[..., c].astype(np.float32)) for c in range(3)]
    pil = np.stack([np.asarray(c.resize((299, 299), Image.Resampling.BICUBIC)) for c in channels])
    assert torch.allclose(resized(image, "pil_bicubic", 299)[0], torch.from_numpy(pil), atol=1e-3)


@pytest.fixture
def digits(tmp_path: Path) -> DigitsExtractor:
    torch.manual_seed(0)
    save_file(DigitClassifier().state_dict(), tmp_path / "digit_classifier.safetensors")
    return DigitsExtractor(tmp_path / "digit_classifier.safetensors")


def test_features_do_not_depend_on_the_batch_and_keep_the_order(digits: DigitsExtractor) -> None:
    images = pictures(23, 8, 6)
    whole = extract(images, digits, 64, "cpu")
    assert whole.logits is not None and whole.features.shape == (23, 64) and whole.logits.shape == (23, 10)
    for batch in (1, 7, 23):
        parts = extract(images, digits, batch, "cpu")
        assert parts.logits is not None
        np.testing.assert_allclose(parts.features, whole.features, atol=1e-6)
        np.testing.assert_allclose(parts.logits, whole.logits, atol=1e-6)
    np.testing.assert_allclose(extract(images[::-1], digits, 5, "cpu").features, whole.features[::-1], atol=1e-6)


def test_a_read_only_map_is_enough(digits: DigitsExtractor, tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", pictures(5, 8, 7))
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    np.testing.assert_array_equal(
        extract(mapped, digits, 2, "cpu").features, extract(pictures(5, 8, 7), digits, 2, "cpu").features
    )


def test_the_identity_follows_the_weights(digits: DigitsExtractor, tmp_path: Path) -> None:
    torch.manual_seed(1)
    save_file(DigitClassifier().state_dict(), tmp_path / "other.safetensors")
    assert DigitsExtractor(tmp_path / "other.safetensors").digest != digits.digest
    assert DigitsExtractor(tmp_path / "digit_classifier.safetensors").digest == digits.digest


def test_missing_weights_name_the_command(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="rtm fetch inception"):
        InceptionExtractor(tmp_path / "inception.safetensors")
    with pytest.raises(UserError, match="rtm fetch vgg16"):
        VGG16Extractor(tmp_path / "vgg16.safetensors")


class _SmallVGG(nn.Module):
    """VGG16's parts in small: convolutions, pooling, and seven layers of which the first four are used."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(7))
        sizes = [nn.Linear(196, 16), nn.ReLU(), nn.Dropout(), nn.Linear(16, 16), nn.ReLU(), nn.Dropout()]
        self.classifier = nn.Sequential(*sizes, nn.Linear(16, 10))

    def forward(self, images: Tensor) -> Tensor:
        found: Tensor = self.classifier(self.features(images).flatten(1))
        return found


def test_vgg16_is_read_at_fc2_after_pillows_resize(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    network = _SmallVGG().eval()
    save_file(network.state_dict(), tmp_path / "vgg16.safetensors")
    monkeypatch.setattr(vgg16, "vgg16", lambda weights: _SmallVGG())
    images = pictures(3, 96, 8)
    steps = [transforms.Resize([224, 224]), transforms.ToTensor()]
    steps.append(transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    prepared = torch.stack([transforms.Compose(steps)(Image.fromarray(image)) for image in images])
    with torch.no_grad():
        expected = network.classifier[:4](network.features(prepared).flatten(1))
    found = extract(images, VGG16Extractor(tmp_path / "vgg16.safetensors"), 2, "cpu")
    assert found.logits is None and (expected < 0).any()  # before the ReLU
    np.testing.assert_allclose(found.features, expected.numpy(), atol=1e-5)
    few = {name: tensor for name, tensor in network.state_dict().items() if name.startswith("features.")}
    save_file(few, tmp_path / "few.safetensors")
    assert torch.equal(vgg16.load_vgg16(tmp_path / "few.safetensors").features[0].weight, few["features.0.weight"])
    with pytest.raises(UserError, match="convolutions only"):
        VGG16Extractor(tmp_path / "few.safetensors")
