"""The parts of a training, and the description in its checkpoint. test_launch.py runs a complete training."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support import smoke_workspace
from support.checkpoints import GAN, IMLE, MLP, metadata_of, training_of

from rtm.config.architecture import Architecture
from rtm.models.registry import build_generator
from rtm.training.assembly import _last_save
from rtm.training.folder import saved_states


@pytest.mark.parametrize("name", [IMLE, MLP, GAN])
def test_the_metadata_of_a_checkpoint_describe_its_network_and_its_data(name: str) -> None:
    experiment = smoke_workspace.experiment(name)
    metadata = json.loads(json.dumps(metadata_of(experiment, 3, "fingerprint", "sha of the data")))
    torch.manual_seed(0)
    described = build_generator(Architecture(**metadata["architecture"])).state_dict()
    expected = build_generator(experiment.architecture).state_dict()
    assert {name: weight.shape for name, weight in described.items()} == {
        name: weight.shape for name, weight in expected.items()
    }
    assert (metadata["experiment"], metadata["seed"], metadata["run"]) == (name, 3, "fingerprint")
    assert metadata["dataset"]["sha256"] == "sha of the data"
    assert metadata["dataset"]["licence"] == experiment.dataset.licence
    assert type(experiment.recipe).model_validate_json(json.dumps(metadata["recipe"])) == experiment.recipe


def test_a_setting_has_the_images_of_the_experiments_dataset(tmp_path: Path) -> None:
    experiment = smoke_workspace.experiment(IMLE)
    expected = smoke_workspace.setting(tmp_path, experiment)
    training = replace(training_of(experiment, 5), images=tmp_path / "images.npy", weights=expected.weights)
    setting = training.setting(torch.device("cpu"))
    assert (setting.experiment, setting.seed, setting.weights) == (experiment, 5, expected.weights)
    assert setting.images.sha256 == expected.images.sha256
    assert len(setting.images) == 48


def test_the_next_save_needs_as_much_room_as_the_larger_of_the_last_two(tmp_path: Path) -> None:
    assert _last_save(tmp_path) == 0
    for path, size in zip(saved_states(tmp_path), (30, 70), strict=True):
        path.write_bytes(bytes(size))
    assert _last_save(tmp_path) == 70
