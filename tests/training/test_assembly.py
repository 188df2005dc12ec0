"""The parts of a training, and the description in its checkpoint. test_launch.py runs a complete training."""

import json
from pathlib import Path

import pytest
import torch
from support import PARAMS, smoke_workspace
from support.checkpoints import GAN, IMLE, MLP

from rtm.config import load
from rtm.config.architecture import Architecture
from rtm.core.layout import Layout, saved_states
from rtm.models.registry import build_generator
from rtm.training.assembly import _last_save, metadata_of, setting_of, weights_of


@pytest.mark.parametrize("name", [IMLE, MLP, GAN])
def test_the_metadata_of_a_checkpoint_describe_its_network_and_its_data(name: str) -> None:
    chosen = smoke_workspace.experiment(name)
    read = json.loads(json.dumps(metadata_of(chosen, 3, "fingerprint", "sha of the data")))
    torch.manual_seed(0)
    described = build_generator(Architecture(**read["architecture"])).state_dict()
    expected = build_generator(chosen.architecture).state_dict()
    assert {name: each.shape for name, each in described.items()} == {n: each.shape for n, each in expected.items()}
    assert (read["experiment"], read["seed"], read["run"]) == (name, 3, "fingerprint")
    assert read["dataset"]["sha256"] == "sha of the data" and read["dataset"]["licence"] == chosen.dataset.licence
    assert type(chosen.recipe).model_validate_json(json.dumps(read["recipe"])) == chosen.recipe


def test_weights_are_those_of_the_perceptual_space(tmp_path: Path) -> None:
    layout, paper = Layout(tmp_path, tmp_path), load("paper", PARAMS).experiments
    assert weights_of(layout, paper["cifar10_imle_rtm"]) == layout.weights("vgg16")  # LPIPS needs them
    assert weights_of(layout, smoke_workspace.experiment(IMLE)) == layout.weights("digit_classifier")
    assert weights_of(layout, paper["cifar10_stylegan2_rtm"]) is None


def test_a_setting_has_the_images_of_the_experiments_dataset(tmp_path: Path) -> None:
    chosen, layout = smoke_workspace.experiment(IMLE), Layout(tmp_path, tmp_path)
    made = smoke_workspace.setting(tmp_path, chosen)
    layout.images("shells").parent.mkdir(parents=True)
    for file in (tmp_path / "images.npy", tmp_path / "meta.json"):
        file.rename(layout.images("shells").with_name(file.name))
    setting = setting_of(layout, chosen, 5, torch.device("cpu"))
    assert (setting.experiment, setting.seed, setting.weights) == (chosen, 5, layout.weights("digit_classifier"))
    assert setting.images.sha256 == made.images.sha256 and len(setting.images) == 48


def test_the_next_save_needs_as_much_room_as_the_larger_of_the_last_two(tmp_path: Path) -> None:
    assert _last_save(tmp_path) == 0
    for path, size in zip(saved_states(tmp_path), (30, 70), strict=True):
        path.write_bytes(bytes(size))
    assert _last_save(tmp_path) == 70
