"""A trial's parameters load as a separate scale, on any machine and with any number of images."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from support import PARAMS

from rtm.config import load
from rtm.core.errors import UserError
from rtm.core.files import json_digest
from rtm.stages.graph import every_job, find, jobs
from rtm.stages.network import Network
from rtm.trial import recipe
from rtm.trial.recipe import Choice, Machine

CPU = Machine(cores=2, gpus=0)


def written(folder: Path, choice: Choice) -> str:
    recipe.write(folder / "try" / choice.name / "params.yaml", choice, "0" * 64, 0.5)
    (folder / "params").symlink_to(PARAMS)
    return f"try/{choice.name}"


@pytest.mark.parametrize("machine", [CPU, Machine(64, 0), Machine(1, 0), Machine(32, 1), Machine(64, 4)])
@pytest.mark.parametrize("images", [16, 100, 3000])
@pytest.mark.parametrize("resolution", recipe.RESOLUTIONS)
def test_every_choice_is_valid(tmp_path: Path, machine: Machine, images: int, resolution: int) -> None:
    choice = Choice("cats", images, resolution, machine, 1)
    choice = replace(choice, epochs=recipe.epochs_for(1000, choice))
    config = load(written(tmp_path, choice), tmp_path / "params")
    assert list(config.experiments) == ["cats_mlp", "cats_rtm"]
    mlp, rtm = config.experiments.values()
    assert mlp.recipe == rtm.recipe
    assert mlp.decoder == rtm.decoder
    assert rtm.steps() == choice.steps
    assert rtm.steps() % rtm.recipe.training.grid_every == 0
    assert Network().path(config, "weights", network="vgg16") == Path("weights/vgg16.safetensors")


@pytest.mark.parametrize(
    ("choice", "digest"),
    [
        (Choice("cats", 100, 32, CPU, 48), "f4cfd0d2713403cd"),
        (Choice("yes", 16, 64, Machine(16, 0), 1), "d74a4fd5e1ee037e"),
        (Choice("cats", 3000, 128, Machine(8, 1), 100), "fef20d185fa84d77"),
        (Choice("cats", 40_000, 256, Machine(32, 4), 16), "45bf2111e1996ade"),
    ],
)
def test_the_values_are_those_that_were_tried(choice: Choice, digest: str) -> None:
    """A hash of all values, because docs/try.md shows what they gave. The name `yes` would be true without quotes."""
    values = yaml.safe_load(recipe.text_of(choice, "12e4" * 16, 1.2345))
    assert values["datasets"][choice.name]["sha256"] == "12e4" * 16
    assert json_digest(values)[:16] == digest


def test_its_jobs_are_in_its_folder_and_known_to_all(tmp_path: Path) -> None:
    scale = written(tmp_path, Choice("cats", 100, 32, CPU, 48))
    own = jobs(load(scale, tmp_path / "params"))
    outside = [job for job in own.values() if not job.root]
    assert {"network/inception", "network/vgg16"} <= {job.id for job in outside}
    assert all("network" in job.names for job in outside)
    every = every_job(tmp_path / "params")
    assert {job.id for job in own.values()} <= every.keys()
    assert "demo/train/digits_rtm/seed0" in every
    target = "try/cats/train/cats_rtm"
    assert [job.id for job in find(every, target)] == [f"{target}/seed0"]


def test_a_machine_gives_the_resolution_and_the_images_limit_it() -> None:
    assert recipe.resolution_for(512, CPU) == 32
    assert recipe.resolution_for(512, Machine(8, 1)) == 128
    assert recipe.resolution_for(70, Machine(8, 4)) == 64
    assert recipe.resolution_for(9, CPU) == 32


def test_an_unknown_trial_is_answered_with_those_that_are(tmp_path: Path) -> None:
    written(tmp_path, Choice("cats", 100, 32, CPU, 48))
    with pytest.raises(UserError, match=r"no scale named 'try/dogs'; choose one of paper, demo, desk, smoke, try/cats"):
        load("try/dogs", tmp_path / "params")
