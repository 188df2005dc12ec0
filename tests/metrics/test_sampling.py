"""Samples do not depend on the batch, stay complete while another sampler writes, and use the mapper's real input."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import checkpoints, smoke_workspace
from support.checkpoints import GAN, IMLE, MLP

from rtm.metrics import sampling
from rtm.metrics.sampling import evaluation_seed, mapper_inputs, write_samples
from rtm.models.drawing import draw_many, labels_of, latents


def test_two_samplers_at_once_leave_whole_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = smoke_workspace.experiment(IMLE)
    smoke_workspace.run(tmp_path, chosen).export(tmp_path / "w.safetensors", tmp_path / "curve.csv", {})
    folder, write_variant = tmp_path / "samples/seed0", sampling._write_variant

    def sample() -> None:
        write_samples(chosen, tmp_path / "w.safetensors", folder, 0)

    def fails(*_: object) -> None:
        raise RuntimeError

    def with_another_beside_it(*given: Any) -> None:
        """A second sampler starts in the middle of this one, and then fails."""
        write_variant(*given)
        monkeypatch.setattr(sampling, "_write_variant", fails)
        with pytest.raises(RuntimeError):
            sample()
        monkeypatch.setattr(sampling, "_write_variant", write_variant)

    sample()
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    left = folder.with_name(".seed0.host.1.tmp")
    left.mkdir()
    os.utime(left, (0, 0))
    monkeypatch.setattr(sampling, "_write_variant", with_another_beside_it)
    sample()
    assert whole and {path.name: path.read_bytes() for path in folder.iterdir()} == whole
    assert [path.name for path in folder.parent.iterdir()] == ["seed0"]


@pytest.mark.parametrize("name", [IMLE, GAN])
def test_samples_are_the_images_of_their_seed_in_any_batch(tmp_path: Path, name: str) -> None:
    chosen = smoke_workspace.experiment(name)
    evaluation = chosen.recipe.evaluation.model_copy(update={"samples": 20, "batch": 7})
    chosen = replace(chosen, recipe=chosen.recipe.model_copy(update={"evaluation": evaluation}))
    network = checkpoints.write(tmp_path / "w.safetensors", chosen)
    cpu, seen = torch.device("cpu"), list[bytes]()
    for seed in (0, 1):
        write_samples(chosen, tmp_path / "w.safetensors", tmp_path / f"seed{seed}", seed)
        samples = np.load(tmp_path / f"seed{seed}/native.npy").astype(int)
        expected = draw_many(network, chosen.architecture, evaluation_seed(seed), 20, 20, cpu).astype(int)
        assert np.abs(samples - expected).max() <= 1 < np.abs(samples - expected[::-1]).max()
        seen.append(samples.tobytes())
    assert seen[0] != seen[1]


@pytest.mark.parametrize("name", [MLP, GAN])
def test_the_mapper_sees_the_label_beside_z_where_there_are_classes(tmp_path: Path, name: str) -> None:
    chosen, index = smoke_workspace.experiment(name), torch.arange(4)
    network: Any = checkpoints.write(tmp_path / "w.safetensors", chosen)
    built = chosen.architecture
    z, labels = latents(3, index, built.dim), labels_of(3, index, built.classes)
    expected = network.mapper(z) if labels is None else network.mapping.map(z, labels)
    torch.testing.assert_close(network.mapper(mapper_inputs(network, chosen, 3, index)), expected)
