"""Advice is a command that a shell understands."""

from pathlib import Path

import pytest

from rtm.config import load
from rtm.core.advice import at_scale, back, make_command, pull_target


def test_the_command_that_makes_a_file() -> None:
    assert make_command(Path("a b.json")) == "snakemake --cores all -- 'a b.json'"
    assert make_command("x", "--force", gpus=True) == "snakemake --profile slurm --force -- x"


def test_a_file_comes_back_from_git_or_dvc_or_is_made_again() -> None:
    for command in ("git checkout -- x", "dvc checkout x", "snakemake --cores all -- x"):
        assert f"`{command}`" in back("x")


@pytest.mark.parametrize("scale", ["paper", "demo", "smoke"])
def test_the_scale_follows_from_the_folder(scale: str) -> None:
    config = load(scale)
    option = "" if scale == "paper" else f" --scale {scale}"
    assert at_scale(config.root / "checkpoints/x/seed0.safetensors", 3) == at_scale(config.root, 0) == option
    shared = " --scale smoke" if scale == "smoke" else ""  # the demo shares the paper's data
    assert at_scale(config.shared / "data/digits/images.npy", 3) == shared
    assert at_scale(config.networks / "weights/vgg16.safetensors", 2) == shared


def test_trials_and_variants_have_theirs_and_other_files_none() -> None:
    assert at_scale(Path("try/cats/data/cats/images.npy"), 3) == " --scale try/cats"
    assert at_scale(Path("variants/demo"), 0) == " --scale demo"
    assert at_scale(Path("/tmp/data/cats/images.npy"), 3) == at_scale(Path("images.npy"), 3) == ""
    assert at_scale(Path("variants/paper/checkpoints/x/seed0.safetensors"), 3) == ""


def test_a_dataset_is_pulled_by_the_file_that_names_it() -> None:
    assert pull_target(Path("data/digits/images.npy")) == Path("data.dvc")
    assert pull_target(Path("try/cats/data/cats/images.npy")) == Path("try/cats/data/cats")
    assert pull_target(Path("/tmp/data/cats/images.npy")) == Path("/tmp/data/cats")
