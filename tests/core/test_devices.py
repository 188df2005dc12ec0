"""The recipe switches TF32 for training and for sampling; matrix products never use TF32."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from support import PARAMS, smoke_workspace

from rtm.config import load
from rtm.methods.registry import build_method
from rtm.models.drawing import load_generator
from rtm.pipeline.graph import jobs


@pytest.mark.parametrize("tf32", [True, False])
def test_training_and_sampling_follow_the_recipe(tf32: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", not tf32)
    chosen = smoke_workspace.experiment("shells_imle_rtm", tf32=tf32)
    method = build_method(smoke_workspace.setting(tmp_path, chosen))
    assert torch.backends.cudnn.allow_tf32 is tf32
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", not tf32)
    save_file(method.generator.state_dict(), tmp_path / "w.safetensors")
    load_generator(chosen.architecture, tmp_path / "w.safetensors", torch.device("cpu"))
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
        if job.stage in ("train", "sample", "gallery", "latency"):
            assert job.params["tf32"] is ("stylegan2" not in str(job.subject.experiment))
