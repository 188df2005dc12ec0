"""The recipe switches TF32 for training and for sampling; matrix products never use TF32."""

from pathlib import Path

import pytest
import torch
from support import PARAMS, checkpoints, smoke_workspace

from rtm.config import load
from rtm.methods.registry import build_method
from rtm.models.checkpoint import load_generator
from rtm.stages.graph import jobs


@pytest.mark.parametrize("tf32", [True, False])
def test_training_and_sampling_follow_the_recipe(tf32: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", not tf32)
    experiment = smoke_workspace.experiment("shells_imle_rtm", tf32=tf32)
    build_method(smoke_workspace.setting(tmp_path, experiment))
    assert torch.backends.cudnn.allow_tf32 is tf32
    checkpoints.write(tmp_path / "w.safetensors", experiment)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", not tf32)
    load_generator(experiment.architecture, tmp_path / "w.safetensors", torch.device("cpu"))
    assert torch.backends.cudnn.allow_tf32 is tf32
    assert torch.get_float32_matmul_precision() == "highest"


def test_every_recipe_of_the_paper_states_a_policy_and_receipts_record_it() -> None:
    config = load("paper", PARAMS)
    policies = {
        name: (recipe.training.precision, recipe.training.tf32, "precision" in recipe.training.model_fields_set)
        for name, recipe in config.params.recipes.items()
        if recipe.resources.gpus
    }
    reduced = {name for name, (precision, *_) in policies.items() if precision == "bfloat16"}
    assert all(stated for *_, stated in policies.values())
    assert reduced == {name for name in policies if "fewshot" not in name}
    assert {name for name, (_, tf32, _) in policies.items() if not tf32} == {n for n in policies if "stylegan2" in n}
    for job in jobs(config).values():
        if "tf32" in job.values:
            assert job.values["tf32"] is ("stylegan2" not in str(job.names["experiment"]))
    recorded = {job.stage.name for job in jobs(config).values() if "tf32" in job.values}
    assert {"train", "gallery", "latency"} <= recorded
