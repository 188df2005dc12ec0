"""A third training method from outside: its class is named in params/, and no line of rtm/ changes."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support import own_classes, smoke_workspace

from rtm.config import Config
from rtm.core.errors import UserError
from rtm.methods import registry
from rtm.models.drawing import draw
from rtm.stages.graph import jobs

MODULE = """
import torch
from torch import nn

from rtm.methods.base import Method
from rtm.models.drawing import latents
from rtm.models.registry import build_generator


class Constant(Method):
    def __init__(self, setting, level, decay=0.5):
        super().__init__(setting)
        self.level, self.decay = level, decay
        torch.manual_seed(self.seed("weights"))
        self.generator = build_generator(setting.experiment.architecture).to(setting.device)
        self.networks = nn.ModuleDict({"generator": self.generator})
        optimizer = torch.optim.Adam(self.generator.parameters(), self.training.lr, self.training.betas)
        self.optimizers = {"generator": optimizer}

    def step(self, step):
        index = torch.arange(self.training.batch) + step * self.training.batch
        return {"loss": self.descend("generator", self.loss, index)}

    def loss(self, index, n):
        z = latents(self.seed("z"), index.to(self.setting.device), self.setting.experiment.recipe.dim)
        return (self.generator(z) - self.level).square().mean((1, 2, 3)).sum() / n

    def ema_decay(self, step):
        return self.decay
"""
KIND = "own_methods:Constant"


def config(folder: Path, **changes: Any) -> Config:
    recipe = {
        "dataset": "shells",
        "dim": 16,
        "decoder": "fewshot",
        "method": {"kind": KIND, "level": 0.5},
        "training": {"steps": 40, "batch": 8, "lr": 0.03, "betas": [0.5, 0.99], "save_every": 9, "grid_every": 9},
        "evaluation": {"protocols": ["paper"], "samples": 5000, "batch": 64, "latency_batch": 16},
        "resources": {"gpus": 1, "cpus": 8, "mem_gb": 64, "hours": 16},
    }
    experiments = {"own": {"recipe": "constant", "mapper": "rtm_8_2"}}
    return own_classes.load_with(folder, recipes={"constant": recipe | changes}, experiments=experiments)


@pytest.mark.parametrize("registered", [False, True])
@pytest.mark.slow(seconds=5)
def test_a_method_from_outside_trains_and_samples(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    registered: bool,
) -> None:
    own_classes.install(tmp_path, "own_methods", MODULE, monkeypatch)
    if registered:
        monkeypatch.setitem(registry.METHODS, "constant", KIND)
    kind = "constant" if registered else KIND
    chosen = config(tmp_path, method={"kind": kind, "level": 0.5}).experiments["own"]

    run = smoke_workspace.run(tmp_path, chosen)

    def distance() -> float:
        images = draw(run.ema, chosen.architecture, 0, torch.arange(64))
        return float((images.float() - 255 * (0.5 + 1) / 2).abs().mean())

    before = distance()
    run.train()
    assert distance() < 0.2 * before
    assert smoke_workspace.run(tmp_path, chosen).done == 40  # the save can be read


def test_its_code_and_its_options_are_in_the_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = own_classes.install(tmp_path, "own_methods", MODULE, monkeypatch)

    def read(**options: object) -> object:
        job = jobs(config(tmp_path, method={"kind": KIND, "level": 0.5, **options}))["smoke/train/own/seed0"]
        assert {"rtm.training.assembly", "rtm.models.generator:build_generator"} <= set(job.code)
        return job.values["method"]

    before = read()
    assert read() == before != read(decay=0.9)
    file.write_text(MODULE.replace("square()", "abs()"), "utf-8")
    assert read() != before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": {"kind": KIND, "levle": 1.0}}, "does not take levle; its options are level, decay"),
        ({"method": {"kind": KIND}}, "needs level; its options are level, decay"),
        ({"method": {"kind": "drift"}}, "no method named 'drift'; choose one of imle, stylegan2"),
        ({"method": {"kind": "imle"}}, "put the values of imle under the key imle"),
        ({"method": None}, "give exactly one of imle, stylegan2 and method"),
        ({"imle": {"pool": 1.0, "refresh": 1, "epsilon": 0.0}}, "give exactly one of imle, stylegan2 and method"),
        ({"decoder": None}, "every method except stylegan2 needs a decoder"),
    ],
)
def test_mistakes_are_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    message: str,
) -> None:
    own_classes.install(tmp_path, "own_methods", MODULE, monkeypatch)
    with pytest.raises(UserError, match=message):
        smoke_workspace.run(tmp_path, config(tmp_path, **changes).experiments["own"])
