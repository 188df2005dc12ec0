"""A mapper from outside: its class is named in params/, and no line of rtm/ changes."""

import inspect
from inspect import Parameter
from pathlib import Path

import pytest
import torch
from support import own_classes, smoke_workspace
from support.checkpoints import metadata_of
from torch import nn

from rtm.config import Config
from rtm.config.base import Strict
from rtm.config.experiments import MLP, DecoderConfig, Recursive
from rtm.core.errors import UserError
from rtm.metrics.latency import measure_latency
from rtm.models.checkpoint import load_generator
from rtm.models.decoders import Decoder
from rtm.models.drawing import draw
from rtm.models.mappers import RTM, MLPMapper
from rtm.stages.graph import jobs

MODULE = """
from torch import nn
from torch.nn import functional as F


class ResidualMLP(nn.Module):
    def __init__(self, dim, in_dim, depth, slope: float = 0.1):
        super().__init__()
        self.first = nn.Linear(in_dim, dim)
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.slope = slope

    def forward(self, z):
        w = self.first(z)
        for layer in self.layers:
            w = w + F.leaky_relu(layer(w), self.slope)
        return w
"""
KIND = "own_mappers:ResidualMLP"
EXPERIMENTS = {
    "own_imle": {"recipe": "fewshot_imle", "dataset": "shells", "mapper": "residual"},
    "own_stylegan2": {"recipe": "cifar10_stylegan2", "mapper": "residual"},  # it has labels, so in_dim is 2 * dim
}


def test_a_dot_may_stand_for_the_colon(tmp_path: Path) -> None:
    assert config(tmp_path, kind="own_mappers.ResidualMLP").experiments["own_imle"].mapper.kind == KIND


def config(folder: Path, **options: object) -> Config:
    mapper = {"kind": KIND, "depth": 2, **options}
    return own_classes.load_with(folder, mappers={"residual": mapper}, experiments=EXPERIMENTS)


@pytest.mark.parametrize(("options", "cls"), [(Recursive, RTM), (MLP, MLPMapper), (DecoderConfig, Decoder)])
def test_the_options_in_params_are_those_of_the_class(options: type[Strict], cls: type[nn.Module]) -> None:
    """They have the same names, and the same values if they are left out."""
    parameters = inspect.signature(cls).parameters
    for name, field in options.model_fields.items():
        if name in ("kind", "fit"):  # `fit` is checked when params/ are read
            continue
        default = parameters[name].default
        assert default is Parameter.empty or (default or None) == (field.get_default() or None)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_mapper_from_outside_trains_and_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    own_classes.install(tmp_path, "own_mappers", MODULE, monkeypatch)
    chosen = config(tmp_path, slope=0.3).experiments[name]
    run = smoke_workspace.run(tmp_path, chosen)
    mapper = run.method.generator.mapper
    assert type(mapper).__name__ == "ResidualMLP"
    assert mapper.slope == 0.3  # type: ignore[union-attr]
    run.train()
    run.export(tmp_path / "w.safetensors", tmp_path / "curve.csv", metadata_of(chosen))
    generator = load_generator(chosen.architecture, tmp_path / "w.safetensors", torch.device("cpu"))
    assert draw(generator, chosen.architecture, 0, torch.arange(9)).float().std() > 0
    measured = measure_latency(chosen, tmp_path / "w.safetensors")
    fan_in = 16 if name == "own_imle" else 32
    assert measured["mapper_parameters"] == 16 * (fan_in + 1) + 2 * 16 * 17


def test_its_code_and_its_options_are_in_the_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = own_classes.install(tmp_path, "own_mappers", MODULE, monkeypatch)
    stages = [f"{stage}/own_imle/seed0" for stage in ("train", "gallery")]

    def read(**options: object) -> list[object]:
        graph = jobs(config(tmp_path, **options))
        return [graph[f"smoke/{name}"].values["mapper"] for name in stages]

    before = read()
    assert read() == before
    assert all(now != old for now, old in zip(read(slope=0.2), before, strict=True))
    file.write_text(MODULE.replace("0.1", "0.2"), "utf-8")
    assert all(now != old for now, old in zip(read(), before, strict=True))


def test_mistakes_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_classes.install(tmp_path, "own_mappers", MODULE, monkeypatch)
    with pytest.raises(UserError, match=f"{KIND} does not take depht; its options are depth, slope"):
        smoke_workspace.run(tmp_path, config(tmp_path, depht=3).experiments["own_imle"])
    with pytest.raises(UserError, match="There is no module mapers for 'mapers:ResidualMLP'; correct it"):
        _ = jobs(config(tmp_path, kind="mapers:ResidualMLP"))["smoke/train/own_imle/seed0"].values
    with pytest.raises(UserError, match=r"there is no kind 'resmlp'; did you mean mlp or rtm, or a class of your own"):
        config(tmp_path, kind="resmlp")
    with pytest.raises(UserError, match=f"{KIND} takes slope: float, not 'steep'; correct it in params/"):
        smoke_workspace.run(tmp_path, config(tmp_path, slope="steep").experiments["own_imle"])
