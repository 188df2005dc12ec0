"""Checkpoints: the pipeline refuses another architecture, and a file from anybody is refused in one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from support import checkpoints, own_classes, smoke_workspace
from support.checkpoints import IMLE, MLP, metadata_of

from rtm.config.architecture import FORMAT, VERSION
from rtm.core.errors import UserError
from rtm.models.checkpoint import load_checkpoint, load_generator
from rtm.models.drawing import draw

CPU = torch.device("cpu")


def test_a_generator_is_that_of_its_experiment_alone(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    network = checkpoints.write(path, IMLE)
    chosen = smoke_workspace.experiment(IMLE).architecture
    generator = load_generator(chosen, path, CPU)
    assert not generator.training
    assert not any(weight.requires_grad for weight in generator.parameters())
    for name, tensor in network.state_dict().items():
        assert torch.equal(generator.state_dict()[name], tensor)
    with pytest.raises(UserError, match="does not fit the parameters in params/; train it again"):
        load_generator(smoke_workspace.experiment(MLP).architecture, path, CPU)
    with pytest.raises(UserError, match="is missing; train it, or get it with `dvc pull"):
        load_generator(chosen, tmp_path / "absent.safetensors", CPU)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(UserError, match=r"is damaged .* bring it back with `dvc checkout"):
        load_generator(chosen, path, CPU)


def changed(**values: Any) -> dict[str, Any]:
    architecture = metadata_of(smoke_workspace.experiment(IMLE), 0, "", "")["architecture"]
    return {"architecture": {**architecture, **values}}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"format": 2, "version": "9.1"}, f"has format 2, and rtm {VERSION} reads format {FORMAT}; use rtm 9.1, which"),
        ({"architecture": {}}, "is damaged or of another kind"),
        (changed(dim=64), "its architecture does not fit its weights"),
        (changed(dim=8), "is damaged or of another kind"),
        (changed(dim=10**12), "a number in it is too large"),
        (changed(mapper={"kind": "mlp", "layers": 30_000}), "its architecture does not fit its weights"),
        (changed(dim="16"), "is damaged or of another kind"),
        (changed(mapper={"kind": "rtm", "H": 2, "L": 1, "width": 8, "layrs": 2}), "rtm.* does not take layrs"),
        (changed(mapper={"kind": "rtm", "H": 65_536, "L": 1, "width": 8, "tokens": None}), "H is 65536; at most 4,096"),
        (changed(mapper={"kind": "rtm", "H": 4096, "L": 4, "width": 8, "tokens": None}), "is more than 16,384"),
        ({"dataset": {"class_names": 3}}, "its class names are no texts"),
        ({"dataset": None}, "is damaged or of another kind"),
        (changed(tf32="yes"), "is damaged or of another kind"),
        (changed(classes={}), "is damaged or of another kind"),
        (changed(mapper={"kind": "rtm", "H": "2", "L": 1, "width": 8, "tokens": None}), "takes H: int, not '2'"),
        (changed(classes=-3, surprise=1), "is damaged or of another kind"),
    ],
)
def test_another_format_or_a_wrong_description_is_one_sentence(
    tmp_path: Path,
    metadata: dict[str, Any],
    message: str,
) -> None:
    checkpoints.write(tmp_path / "w.safetensors", IMLE, **metadata)
    with pytest.raises(UserError, match=message) as error:
        load_checkpoint(tmp_path / "w.safetensors", CPU)
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_checkpoint_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no weights", "utf-8")
    with pytest.raises(UserError, match="text is damaged or of another kind"):
        load_checkpoint(tmp_path / "text", CPU)
    save_file({"w": torch.ones(1)}, tmp_path / "other")
    with pytest.raises(UserError, match="does not describe its network"):
        load_checkpoint(tmp_path / "other", CPU)
    save_file({"w": torch.full((1,), torch.nan)}, tmp_path / "diverged", {"rtm": json.dumps({"format": 1})})
    with pytest.raises(UserError, match="not finite"):
        load_checkpoint(tmp_path / "diverged", CPU)


@pytest.mark.parametrize("described", ["3", "null", "[]", '"text"', "true", "{}"])
def test_metadata_that_are_no_description_are_one_sentence(tmp_path: Path, described: str) -> None:
    save_file({"w": torch.ones(1)}, tmp_path / "w", {"rtm": described})
    with pytest.raises(UserError, match=r"w does not describe its network; rtm .* reads checkpoints of format 1"):
        load_checkpoint(tmp_path / "w", CPU)


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.bool, torch.complex64])
def test_weights_that_are_no_floating_numbers_are_not_drawn(tmp_path: Path, dtype: torch.dtype) -> None:
    path = tmp_path / "w.safetensors"
    network = checkpoints.write(path, IMLE)
    described = {"rtm": json.dumps(metadata_of(smoke_workspace.experiment(IMLE), 0, "", ""))}
    weights = {name: tensor.to(dtype) for name, tensor in network.state_dict().items()}
    save_file(weights, path, described)
    with pytest.raises(UserError, match=rf"w\.safetensors is damaged or of another kind .*weights of {dtype}"):
        load_checkpoint(path, CPU)


OWN = """
from torch import nn

print("imported")


class Linear(nn.Module):
    def __init__(self, dim, in_dim, scale=1.0):
        super().__init__()
        self.layer, self.scale = nn.Linear(in_dim, dim), scale

    def forward(self, z):
        return self.layer(z) * self.scale
"""


def test_a_class_from_outside_is_never_imported_silently(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own_classes.install(tmp_path, "own_linear", OWN, monkeypatch)
    mapper = {"kind": "own_linear:Linear", "scale": 2.0}
    experiments = {"own": {"recipe": "fewshot_imle", "dataset": "shells", "mapper": "own"}}
    chosen = own_classes.load_with(tmp_path, mappers={"own": mapper}, experiments=experiments).experiments["own"]
    network = checkpoints.write(tmp_path / "w.safetensors", chosen)
    expected = draw(network, chosen.architecture, 0, torch.arange(2))
    cls = type(network.mapper)
    own_classes.forget("own_linear")
    capsys.readouterr()
    with pytest.raises(UserError, match=r"own_linear:Linear, a class from outside; pass classes=.* or trust=True"):
        load_checkpoint(tmp_path / "w.safetensors", CPU)
    given = load_checkpoint(tmp_path / "w.safetensors", CPU, classes={"own_linear:Linear": cls})  # type: ignore[dict-item]
    assert not capsys.readouterr().out
    trusted = load_checkpoint(tmp_path / "w.safetensors", CPU, trust=True)
    assert capsys.readouterr().out == "imported\n"
    for checkpoint in (given, trusted):
        images = draw(checkpoint.generator, checkpoint.architecture, 0, torch.arange(2))
        assert torch.equal(images, expected)
