"""From a checkpoint to the numbers of a protocol: each network runs once, and other weights are refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import PARAMS, checkpoints, smoke_workspace

from rtm.config import load
from rtm.config.experiments import Halting
from rtm.core.errors import UserError
from rtm.core.files import digest
from rtm.metrics.evaluate import checkpoint_metrics, reference_of
from rtm.stages.dataset import Dataset
from rtm.stages.network import Network

OF_DEPTH = {"steps", "z_change", "z_tail", "w_change", "flips", "feature_change", "rounding", "rounding_tail"}


@pytest.mark.parametrize("name", ["cifar10_imle_rtm", "cifar10_imle_mlp"])
def test_every_variant_is_measured_and_recursive_mappers_are_followed(tmp_path: Path, name: str) -> None:
    config = load("smoke", PARAMS).at(tmp_path)
    smoke_workspace.prepare_inputs(config, "cifar10")
    recursive = name.endswith("rtm")
    sweep = (3, Halting(tolerance=0.5, max=6)) if recursive else ()
    chosen = replace(config.experiments[name], sweep=sweep)
    protocol = config.params.protocols["paper"]
    weights = {"digit_classifier": Network().path(config, "weights", network="digit_classifier")}
    reference = tmp_path / "reference"
    checkpoint = tmp_path / "w.safetensors"
    checkpoints.write(checkpoint, chosen, perturbed=False)
    reference_of(Dataset().path(config, "images", dataset="cifar10"), protocol, weights, tmp_path / "kept").save(
        reference
    )

    def measured(samples: int) -> dict[str, Any]:
        changed = protocol.model_copy(update={"samples": {"default": samples}})
        return checkpoint_metrics(
            chosen, 0, "paper", changed, checkpoint, reference, weights, tmp_path / "features/kept"
        )

    result = measured(64)
    assert result["provenance"]["checkpoint_sha256"] == digest(checkpoint)
    assert (result["experiment"], result["protocol"], result["seed"], result["samples"]) == (name, "paper", 0, 64)
    assert tuple(result["metrics"]) == tuple(result["intervals"]) == chosen.variants
    metrics = result["metrics"]
    if recursive:
        assert all(of_variant.keys() > OF_DEPTH for of_variant in metrics.values())
        assert metrics["H3"]["steps"] == 3
        assert metrics["halt_0_5_6"]["steps"] == metrics["halt_0_5_6_shuffled"]["steps"]
        median = result["refinement"]["z"]["median"]
        assert len(median) == 11
        assert median[1] == pytest.approx(metrics["H3"]["z_change"], rel=0.05)
    else:
        assert "refinement" not in result
        assert not OF_DEPTH & metrics["native"].keys()
    with pytest.raises(UserError, match="asks for 65 samples and there are 64"):
        measured(65)
