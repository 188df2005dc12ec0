"""A mapper from outside: its class is named in params/, and no line of rtm/ changes."""

from pathlib import Path

import numpy as np
import pytest
from support import own_classes, smoke_workspace

from rtm.config import Config
from rtm.core.errors import UserError
from rtm.metrics.latency import measure_latency
from rtm.metrics.sampling import write_samples
from rtm.pipeline.graph import jobs

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


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_mapper_from_outside_trains_and_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    own_classes.install(tmp_path, "own_mappers", MODULE, monkeypatch)
    chosen = config(tmp_path, slope=0.3).experiments[name]
    run = smoke_workspace.run(tmp_path, chosen)
    mapper = run.method.generator.mapper
    assert type(mapper).__name__ == "ResidualMLP" and mapper.slope == 0.3  # type: ignore[union-attr]
    run.train()
    run.export(tmp_path / "w.safetensors", tmp_path / "curve.csv", {})
    write_samples(chosen, tmp_path / "w.safetensors", tmp_path / "samples", 0)
    samples = np.load(tmp_path / "samples/native.npy")
    assert samples.shape == (64, 8, 8, 3) and samples.std() > 0
    measured = measure_latency(chosen, tmp_path / "w.safetensors")
    fan_in = 16 if name == "own_imle" else 32
    assert measured["mapper_parameters"] == 16 * (fan_in + 1) + 2 * 16 * 17


def test_its_code_and_its_options_are_in_the_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = own_classes.install(tmp_path, "own_mappers", MODULE, monkeypatch)
    stages = [f"{stage}/own_imle/seed0" for stage in ("train", "sample", "gallery")]

    def read(**options: object) -> list[object]:
        graph = jobs(config(tmp_path, **options))
        return [graph[name].params["mapper"] for name in stages]

    before = read()
    assert read() == before and all(now != old for now, old in zip(read(slope=0.2), before, strict=True))
    file.write_text(MODULE.replace("0.1", "0.2"))
    assert all(now != old for now, old in zip(read(), before, strict=True))


def test_mistakes_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_classes.install(tmp_path, "own_mappers", MODULE, monkeypatch)
    with pytest.raises(UserError, match=f"{KIND} does not take depht; its options are depth, slope"):
        smoke_workspace.run(tmp_path, config(tmp_path, depht=3).experiments["own_imle"])
    with pytest.raises(UserError, match="There is no module mapers for 'mapers:ResidualMLP'; correct it"):
        jobs(config(tmp_path, kind="mapers:ResidualMLP"))
    with pytest.raises(UserError, match=r"there is no kind 'resmlp'; did you mean mlp or rtm, or a class of your own"):
        config(tmp_path, kind="resmlp")
    with pytest.raises(UserError, match=f"{KIND} takes slope: float, not 'steep'; correct it in params/"):
        smoke_workspace.run(tmp_path, config(tmp_path, slope="steep").experiments["own_imle"])
