"""A decoder, a perceptual space and a dataset from outside: classes named in params/, and no line of rtm/ changes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import PARAMS, checkpoints, own_classes

import rtm
from rtm.config import Config, load
from rtm.config.experiments import DatasetEntry
from rtm.core.errors import UserError
from rtm.data.datasets import Images
from rtm.data.fetch import fetch_dataset
from rtm.data.prepare import prepare
from rtm.lineage.freshness import Freshness
from rtm.methods.base import Setting
from rtm.methods.registry import build_method
from rtm.models.drawing import draw
from rtm.stages.graph import jobs
from rtm.stages.train import perceptual_weights
from rtm.training.loop import Run

MODULE = """
import numpy as np
import torch
from torch import nn


class Flat(nn.Module):
    def __init__(self, dim: int, resolution: int, gain: float = 1.0):
        super().__init__()
        self.layer, self.resolution, self.gain = nn.Linear(dim, 3 * resolution**2), resolution, gain

    def forward(self, w):
        return self.gain * self.layer(w).view(-1, 3, self.resolution, self.resolution)


class Pixels(nn.Module):
    def __init__(self, pool: int = 2):
        super().__init__()
        self.pool = nn.AvgPool2d(pool)

    def forward(self, images):
        return [self.pool(images)]


def squares(resolution: int, dark: int = 0):
    shade = dark
    while True:
        image = np.full((resolution, resolution, 3), shade % 256, np.uint8)
        image[: resolution // 2] = 255
        yield image, shade % 2
        shade += 9


def grey(resolution: int):
    yield np.zeros((resolution, resolution), np.uint8)
"""
DATASET = {"title": "Squares", "kind": "own_parts.squares", "options": {"dark": 3}, "resolution": 8, "count": 12}
DATASET |= {"classes": 2, "licence": "none", "citation": "none"}


def config(folder: Path) -> Config:
    """A recipe with three own classes. The smoke scale is not used, because it replaces datasets and spaces."""
    recipes = load("smoke", PARAMS).params.model_dump(mode="json")["recipes"]
    own = {**recipes["fewshot_imle"], "decoder": "flat", "dataset": "squares"}
    own["evaluation"] |= {"samples": 5000, "batch": 1000}
    own["training"] |= {"watch": None}
    own["imle"] |= {"perceptual": {"kind": "own_parts:Pixels", "pool": 4}}
    own_classes.load_with(
        folder,
        datasets={"squares": DATASET},
        decoders={"flat": {"kind": "own_parts:Flat", "gain": 0.5}},
        recipes={"own": own},
        mappers={"small": {"kind": "rtm", "H": 2, "L": 1, "width": 8}},
        experiments={"own": {"recipe": "own", "mapper": "small"}},
    )
    return load("paper", folder / "params")


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return own_classes.install(tmp_path, "own_parts", MODULE, monkeypatch)


@pytest.mark.slow(seconds=4)
def test_all_three_train_and_sample_together(tmp_path: Path) -> None:
    made = config(tmp_path)
    chosen = made.experiments["own"]
    images = tmp_path / "data/squares/images.npy"
    found = fetch_dataset("squares", chosen.dataset, images, tmp_path / "downloads")
    assert found["images.npy"]
    assert Images(images).labels is not None
    pixels = np.load(images)
    assert pixels.shape == (12, 8, 8, 3)
    assert list(pixels[:3, -1, 0, 0]) == [3, 12, 21]
    assert perceptual_weights(chosen, {}) is None
    setting = Setting(chosen, 0, Images(images), None, torch.device("cpu"))
    run = Run(build_method(setting), setting, tmp_path / "run")
    run.train()
    assert draw(run.ema, chosen.architecture, 0, torch.arange(9)).float().std() > 0


def test_a_checkpoint_with_an_own_decoder_asks_for_trust(tmp_path: Path) -> None:
    network = checkpoints.write(tmp_path / "w.safetensors", config(tmp_path).experiments["own"])
    with pytest.raises(UserError, match="trained with own_parts:Flat, a class from outside"):
        rtm.load(tmp_path / "w.safetensors", "cpu")
    cls: Any = type(network.decoder)
    given = rtm.load(tmp_path / "w.safetensors", "cpu", classes={"own_parts:Flat": cls})
    assert torch.equal(given(3), rtm.load(tmp_path / "w.safetensors", "cpu", trust=True)(3))


def test_their_code_and_options_make_their_results_stale_and_no_others(tmp_path: Path, module: Path) -> None:
    before = {job.id: Freshness().fingerprint(job) for job in _own_and_others(load("paper", PARAMS))}
    graph = jobs(config(tmp_path))
    assert {name: Freshness().fingerprint(graph[name]) for name in before} == before
    read = graph["dataset/squares"].values, graph["train/own/seed0"].values
    module.write_text(MODULE.replace("shade += 9", "shade += 8"), "utf-8")
    now = jobs(config(tmp_path))
    assert (now["dataset/squares"].values, now["train/own/seed0"].values) != read
    changed = now["train/own/seed0"].values
    assert changed["decoder"]["source"]
    assert changed["imle"]["perceptual"]["source"]
    assert {name: Freshness().fingerprint(now[name]) for name in before} == before


def _own_and_others(given: Config) -> list[Any]:
    graph = jobs(given)
    return [
        graph[name] for name in ("train/cifar10_imle_rtm/seed0", "dataset/cifar10", "gallery/shells_imle_rtm/seed0")
    ]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"kind": "own_parts:grey", "options": None},
            r"Image 0 of squares is uint8 \(8, 8\); own_parts:grey must",
        ),
        ({"classes": 1}, "Image 0 of squares has label 1; own_parts:squares must yield 0 to classes - 1"),
        ({"options": {"drak": 3}}, "own_parts:squares does not take drak; its options are dark"),
        ({"options": {"dark": "3"}}, "own_parts:squares takes dark: int, not '3'"),
    ],
)
def test_a_wrong_dataset_is_one_sentence(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        prepare(
            "squares", DatasetEntry.model_validate_json(json.dumps({**DATASET, **changed})), tmp_path / "images.npy"
        )


def test_a_scales_pattern_leaves_the_options_of_own_classes_alone(tmp_path: Path) -> None:
    config(tmp_path)
    smoke = load("smoke", tmp_path / "params")
    assert smoke.params.decoders["flat"].model_dump() == {"kind": "own_parts:Flat", "gain": 0.5}
    assert smoke.params.datasets["squares"].kind == "digits"
