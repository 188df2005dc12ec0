"""The numbers about a recursion are right for recursions with known answers."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from support import PARAMS, smoke_workspace
from torch import Tensor

from rtm import RTM
from rtm.config import Experiment, load
from rtm.config.experiments import Halting
from rtm.core.layout import Layout
from rtm.metrics.evaluate import write_metrics, write_reference
from rtm.metrics.features import FeatureSet
from rtm.metrics.latency import measure_latency
from rtm.metrics.refinement import Refinement, agreement, amplification, changes, hardness, quantiles
from rtm.metrics.sampling import write_samples
from rtm.models.registry import build_generator


class Halves:
    """A recursion that starts at 1 + z; its distance to the fixed point 1 halves in every step."""

    def trajectory(self, z: Tensor) -> Iterator[Tensor]:
        state = z[None]  # (tokens, batch, width)
        while True:
            state = state / 2
            yield 1 + state

    def read(self, state: Tensor) -> Tensor:
        return state[0] - 1  # w halves, too, so each change of w is as large as the new w


def test_changes_of_a_recursion_that_halves() -> None:
    z = torch.tensor([[8.0], [-8.0], [0.0]])
    moved = changes(Halves(), z, 6)
    assert moved["z"].shape == (5, 3)
    for step in range(5):  # from 1 + 8 / 2^(step + 1) to 1 + 8 / 2^(step + 2)
        to = 8 / 2 ** (step + 2)
        assert moved["z"][step].tolist() == pytest.approx([to / (1 + to), to / abs(1 - to) if to != 1 else math.inf, 0])
        assert moved["w"][step, :2].tolist() == pytest.approx([1, 1])


def test_quantiles_are_over_the_latents() -> None:
    curves = quantiles(torch.linspace(0, 1, 101, dtype=torch.float64).expand(3, 101))
    assert curves == {"p10": [0.1] * 3, "median": [0.5] * 3, "p90": [0.9] * 3, "p99": [0.99] * 3}


def test_agreement_by_hand() -> None:
    """The features are on a line. One of four classes flips, and every image moves by 0.5."""
    features = np.array([[0.0], [3.0], [6.0], [9.0]], np.float32)
    logits = np.eye(4, dtype=np.float32)
    other = logits.copy()
    other[2] = logits[0]
    agreed = agreement(FeatureSet(features, logits), FeatureSet(features + 0.5, other))
    assert agreed["flips"] == 0.25
    assert 0.5 / 9 < agreed["feature_change"] < 0.5 / 3  # different images are 3 to 9 apart
    same = agreement(FeatureSet(features, logits), FeatureSet(features, logits))
    assert same == {"feature_change": 0.0, "flips": 0.0}
    assert "flips" not in agreement(FeatureSet(features, None), FeatureSet(features, None))


def test_hardness_is_a_rank_correlation_with_the_distance_to_the_data() -> None:
    fake = np.arange(10.0, dtype=np.float32)[:, None] ** 2
    real = np.array([[0.0], [-5.0]], np.float32)
    assert hardness(np.arange(10), fake, real) == pytest.approx(1)
    assert hardness(-np.arange(10), fake, real) == pytest.approx(-1)
    assert hardness(np.full(10, 8), fake, real) == 0


def test_rounding_errors_grow_with_the_recursion_and_vanishes_in_float64() -> None:
    torch.manual_seed(0)
    mapper, z = RTM(512, 4, 128, 16, 1), torch.randn(8, 512)
    few, many = amplification(mapper, z, 1), amplification(mapper, z, 24)
    assert 1 < few.median() < 20 and many.median() > 3 * few.median()  # an untrained mapper amplifies errors
    mixed = amplification(mapper, z, torch.tensor([1, 24] * 4))
    torch.testing.assert_close(mixed[::2], few[::2], rtol=0.5, atol=0)
    torch.testing.assert_close(mixed[1::2], many[1::2], rtol=0.5, atol=0)
    assert not amplification(mapper.double(), z.double(), 8).any()


def prepared(folder: Path, sweep: tuple[int | Halting, ...], name: str) -> tuple[Experiment, Layout]:
    """Write a checkpoint of untrained weights and its samples."""
    chosen = replace(smoke_workspace.experiment(name), sweep=sweep)
    layout = Layout(folder, folder)
    torch.manual_seed(1)
    checkpoint = layout.checkpoint(name, 0)
    checkpoint.parent.mkdir(parents=True)
    save_file(build_generator(chosen.architecture).state_dict(), checkpoint)
    write_samples(chosen, checkpoint, layout.samples(name, 0), 0)
    return chosen, layout


@pytest.mark.parametrize("name", ["cifar10_imle_rtm", "cifar10_stylegan2_rtm"])
def test_halting_and_its_control_share_their_steps(tmp_path: Path, name: str) -> None:
    chosen, layout = prepared(tmp_path, (1, 3, Halting(tolerance=0.5, max=6)), name)
    assert chosen.variants == ("native", "H1", "H3", "halt_0_5_6", "halt_0_5_6_shuffled")
    folder = layout.samples(name, 0)
    steps, shuffled = (np.load(folder / f"halt_0_5_6{kind}.steps.npy") for kind in ("", "_shuffled"))
    assert len(set(steps)) > 1 and steps.max() <= 6
    assert sorted(steps) == sorted(shuffled) and not np.array_equal(steps, shuffled)
    halted, third = (np.load(folder / f"{variant}.npy").astype(int) for variant in ("halt_0_5_6", "H3"))
    same = np.abs(halted - third).max((1, 2, 3)) <= 1
    assert same[steps == 3].all() and not same[steps != 3].all()
    times = measure_latency(chosen, layout.checkpoint(name, 0))["sweep"]
    assert times["halt_0_5_6"] == times["halt_0_5_6_shuffled"] > 0


def test_twice_the_steps_of_one_variant_are_the_samples_of_another(tmp_path: Path) -> None:
    """They are equal bit for bit, so features that were kept for one variant also serve the other."""
    chosen, layout = prepared(tmp_path, (3, 6), "cifar10_imle_rtm")
    seen: list[np.ndarray] = []

    def look(images: np.ndarray) -> FeatureSet:
        seen.append(images)
        return FeatureSet(images.reshape(len(images), -1).astype(np.float32), None)

    samples = [np.load(layout.samples(chosen.name, 0) / f"{variant}.npy") for variant in ("H3", "H6")]
    refinement = Refinement.load(chosen, layout.checkpoint(chosen.name, 0), 0)
    refinement.measured(torch.full((len(samples[0]),), 3), look(samples[0]), look)
    np.testing.assert_array_equal(seen[1], samples[1])


def test_the_stage_records_it_for_recursive_mappers_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load("smoke", PARAMS)
    smoke_workspace.fetch(config, "cifar10")
    write_reference(config, config.layout, "cifar10", "paper")
    for name in ("cifar10_imle_rtm", "cifar10_imle_mlp"):
        recursive = name.endswith("rtm")
        chosen, layout = prepared(Path("smoke"), (3, Halting(tolerance=0.5, max=6)) if recursive else (), name)
        write_metrics(config, layout, chosen, "paper", 0)
        written = json.loads(layout.metrics(name, "paper", 0).read_text())
        of_depth = {"steps", "z_change", "z_tail", "w_change", "flips", "feature_change", "rounding", "rounding_tail"}
        if not recursive:
            assert "refinement" not in written and not of_depth & written["metrics"]["native"].keys()
            continue
        assert all(of_depth < metrics.keys() for metrics in written["metrics"].values())
        assert written["metrics"]["H3"]["steps"] == 3
        assert written["metrics"]["halt_0_5_6"]["steps"] == written["metrics"]["halt_0_5_6_shuffled"]["steps"]
        median = written["refinement"]["z"]["median"]
        assert len(median) == 11 and median[1] == pytest.approx(written["metrics"]["H3"]["z_change"], rel=0.05)
