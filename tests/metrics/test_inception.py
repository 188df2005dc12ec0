"""Inception equals torch-fidelity's network and numbers, with real weights if they are here, otherwise random ones."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch_fidelity
from safetensors.torch import load_file, save_file
from support.images import pictures
from torch import Tensor, nn
from torch.utils.data import TensorDataset
from torch_fidelity import feature_extractor_inceptionv3 as theirs

from rtm.core.errors import UserError
from rtm.data.networks import state_dict
from rtm.metrics.features import extract
from rtm.metrics.fid import frechet_distance
from rtm.metrics.inception import InceptionExtractor
from rtm.metrics.inception_score import inception_score
from rtm.metrics.prdc import prdc
from rtm.metrics.vgg16 import VGG16Extractor

REAL = Path(os.environ.get("RTM_WEIGHTS", "weights")) / "inception.safetensors"
KNOWN_FEATURES = [0.2115362, 0.0, 0.0, 0.1133170, 0.0114864]
KNOWN_NORM = 15.5682278


def randomised(network: nn.Module) -> None:
    """Give it weights that keep the size of the signal through all layers, and batch norms that change the signal."""
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
    """The same weights for torch-fidelity's Inception and for ours: real ones if they are here, otherwise random."""
    folder = tmp_path_factory.mktemp("weights")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(theirs, "load_state_dict_from_url", lambda *_, **__: {})
        patch.setattr(theirs.FeatureExtractorInceptionV3, "load_state_dict", lambda *_: None)
        network = theirs.FeatureExtractorInceptionV3("random", ["2048"])
    randomised(network)
    state = network.state_dict() | (load_file(REAL) if REAL.exists() else {})
    torch.save(state, folder / "theirs.pth")
    save_file(state_dict(folder / "theirs.pth"), folder / "inception.safetensors")
    yield folder / "theirs.pth", folder / "inception.safetensors"


@pytest.mark.slow(seconds=4)
def test_inception_equals_torch_fidelity(networks: tuple[Path, Path]) -> None:
    """Folded batch norms, channels-last and our resize change nothing."""
    names = ["2048", "logits_unbiased", "logits"]
    network = theirs.FeatureExtractorInceptionV3("theirs", names, feature_extractor_weights_path=str(networks[0]))
    images = torch.from_numpy(np.concatenate([pictures(2, 32, 0), pictures(1, 32, 1) // 3])).permute(
        0,
        3,
        1,
        2,
    )
    with torch.inference_mode():
        features, unbiased, _ = network(images)
        ours = InceptionExtractor(networks[1])(images)
    assert features.std() > 0.01
    assert (ours.features - features).abs().max() <= 1e-5 * features.abs().max()
    assert (ours.logits - unbiased).abs().max() <= 1e-5 * unbiased.abs().max()


@pytest.mark.slow(seconds=10)
def test_metrics_equal_torch_fidelity_from_images_to_numbers(networks: tuple[Path, Path]) -> None:
    fake = pictures(6, 32, 2)
    real = pictures(7, 32, 3)[:, ::-1].copy()
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


def test_missing_weights_name_the_command(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="rtm fetch inception"):
        InceptionExtractor(tmp_path / "inception.safetensors")
    with pytest.raises(UserError, match="rtm fetch vgg16"):
        VGG16Extractor(tmp_path / "vgg16.safetensors")
