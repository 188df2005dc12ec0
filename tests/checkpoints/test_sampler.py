"""`rtm.load` gives the pipeline's images from the file alone, and refuses what a checkpoint cannot do."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support import checkpoints, smoke_workspace
from support.checkpoints import GAN, IMLE, MLP, metadata_of
from torch import Tensor, nn

import rtm
from rtm.checkpoints.sampler import MEAN_OF, Sampler
from rtm.core.errors import UserError
from rtm.core.pixels import to_pixels
from rtm.core.randomness import seed_of
from rtm.models.drawing import draw, latents, noise_of


@pytest.fixture(scope="module", params=[IMLE, MLP, GAN])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, nn.Module, Sampler]:
    path = tmp_path_factory.mktemp("checkpoint") / "seed0.safetensors"
    network = checkpoints.write(path, request.param)
    return request.param, network, rtm.load(path, "cpu")


@pytest.fixture(scope="module")
def recursive(tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, Sampler]:
    path = tmp_path_factory.mktemp("checkpoint") / "seed0.safetensors"
    return checkpoints.write(path, IMLE), rtm.load(path, "cpu")


@pytest.fixture(scope="module")
def conditional(tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, Sampler]:
    path = tmp_path_factory.mktemp("checkpoint") / "seed0.safetensors"
    chosen = smoke_workspace.experiment(GAN)
    names = {**metadata_of(chosen, 0, "", "")["dataset"], "class_names": list("abcdefghij")}
    return checkpoints.write(path, GAN, dataset=names), rtm.load(path, "cpu")


def test_images_are_those_that_the_pipeline_draws(pair: tuple[str, nn.Module, Sampler]) -> None:
    name, network, sampler = pair
    architecture = smoke_workspace.experiment(name).architecture
    expected = draw(network, architecture, 7, torch.arange(2, 6))
    assert torch.equal(sampler(count=4, seed=7, first=2), expected)
    assert expected.float().std() > 1
    assert not torch.equal(sampler(count=4, seed=8, first=2), expected)
    assert sampler.info["experiment"] == name
    assert sampler.info["dataset"]["licence"]


def test_drawing_leaves_the_callers_random_numbers_alone(tmp_path: Path) -> None:
    checkpoints.write(tmp_path / "w.safetensors", IMLE)
    before = torch.random.get_rng_state()
    rtm.load(tmp_path / "w.safetensors", "cpu")(count=2)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_steps_and_halting_reach_the_mapper(recursive: tuple[nn.Module, Sampler]) -> None:
    network, sampler = recursive
    architecture = sampler.architecture
    index = torch.arange(3)
    assert torch.equal(sampler(3, H=5), draw(network, architecture, 0, index, H=5))
    halted = draw(network, architecture, 0, index, tolerance=0.3, max_H=9)
    assert torch.equal(sampler(3, tolerance=0.3, max_H=9), halted)
    assert not torch.equal(sampler(3, H=5), sampler(3))


def test_truncation_moves_towards_the_mean_style(recursive: tuple[nn.Module, Sampler]) -> None:
    network, sampler = recursive
    dim = sampler.architecture.dim
    index = torch.arange(2)
    noise = noise_of(0, torch.arange(2))

    def shown(w: Tensor) -> Tensor:
        return to_pixels(network.decode(w, noise)).permute(0, 2, 3, 1)  # type: ignore[operator]

    with torch.no_grad():
        mean = network.mapper(latents(seed_of("mean of w"), torch.arange(MEAN_OF), dim), H=3).mean(0)  # type: ignore[operator]
        w = network.mapper(latents(0, index, dim), H=3)  # type: ignore[operator]
        for psi in (0.0, 0.7):
            off = (sampler(2, H=3, truncation=psi).int() - shown(mean + psi * (w - mean)).int()).abs()
            assert off.max() <= 1  # the order of the sum for the mean differs


def test_truncation_of_stylegan2_is_its_own(conditional: tuple[nn.Module, Sampler]) -> None:
    network, sampler = conditional
    expected = draw(network, sampler.architecture, 0, torch.arange(3), truncation=0.5)
    assert torch.equal(sampler(3, truncation=0.5), expected)


def test_a_class_by_number_and_by_name(conditional: tuple[nn.Module, Sampler]) -> None:
    network, sampler = conditional
    expected = draw(network, sampler.architecture, 0, torch.arange(3), labels=torch.tensor([3, 3, 3]))
    for label in (3, "3", "d"):
        assert torch.equal(sampler(3, label=label), expected)
    assert not torch.equal(sampler(3, label="a"), expected)
    with pytest.raises(UserError, match="There is no class 10; choose 0 to 9 or one of a, b, c"):
        sampler(1, label=10)


def test_interpolation_begins_and_ends_at_images(recursive: tuple[nn.Module, Sampler]) -> None:
    _, sampler = recursive
    frames = sampler.interpolate(5, count=2, seed=3)
    assert frames.shape == (2, 5, 8, 8, 3)
    images = sampler(3, seed=3)
    for strip in range(2):
        assert (frames[strip, 0].int() - images[strip].int()).abs().max() <= 1  # the batch size differs
    assert not torch.equal(frames[0, 2], frames[0, 0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": 3}, "This checkpoint has no classes; leave the class out."),
        ({"H": 0}, "H is 0; it must be positive."),
        ({"steps": 3}, r"This checkpoint's mapper \(rtm\) takes no steps; leave steps out."),
        ({"H": 3, "tolerance": 0.1}, "Give H or tolerance, not both."),
        ({"H": 4097}, "H is 4097; at most 4,096."),
        ({"tolerance": 0.1, "max_H": 65_536}, "Max_H is 65536; at most 4,096."),
        ({"truncation": float("nan")}, "Truncation must be a number from -10 to 10."),
        ({"truncation": 1e38}, "Truncation must be a number from -10 to 10."),
        ({"truncation": -11}, "Truncation must be a number from -10 to 10."),
        ({"first": 2**53 - 1, "count": 2}, "The number of an image is at most 9,007,199,254,740,991."),
        ({"first": 2**63 - 1}, "The number of an image is at most 9,007,199,254,740,991."),
        ({"count": 0}, "Count and batch must be positive"),
        ({"first": -1}, "first not negative"),
    ],
)
def test_what_a_checkpoint_cannot_use_is_one_sentence(
    recursive: tuple[nn.Module, Sampler],
    options: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(UserError, match=message):
        recursive[1](**options)


def test_the_last_image_is_drawn(recursive: tuple[nn.Module, Sampler]) -> None:
    _, sampler = recursive
    last = sampler(1, first=2**53 - 1)
    assert not torch.equal(last, sampler(1, first=2**53 - 2))
    assert sampler.interpolate(2, first=2**53 - 2).shape == (1, 2, 8, 8, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"frames": 1}, "An interpolation has at least 2 frames and 1 image."),
        ({"frames": 4097}, "An interpolation has at most 4,096 frames."),
        ({"frames": 2, "first": 2**53 - 1}, "The number of an image is at most 9,007,199,254,740,991."),
    ],
)
def test_an_interpolation_has_limits(
    recursive: tuple[nn.Module, Sampler],
    options: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(UserError, match=message):
        recursive[1].interpolate(**options)


def test_a_size_that_is_not_that_of_the_images_is_refused(tmp_path: Path) -> None:
    architecture = metadata_of(smoke_workspace.experiment(IMLE), 0, "", "")["architecture"]
    checkpoints.write(tmp_path / "w.safetensors", IMLE, architecture={**architecture, "resolution": 3})
    with pytest.raises(UserError, match="This checkpoint says 3 px and draws 8 x 8 px; get it again"):
        rtm.load(tmp_path / "w.safetensors", "cpu")()


def test_an_mlp_has_no_steps(tmp_path: Path) -> None:
    checkpoints.write(tmp_path / "w.safetensors", MLP)
    with pytest.raises(UserError, match=r"mapper \(mlp\) takes no H; leave H out"):
        rtm.load(tmp_path / "w.safetensors", "cpu")(H=4)


def test_without_a_file_the_spellings_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"There is no checkpoint .*; give a file, https://... or hf://"):
        rtm.load(tmp_path / "absent.safetensors")
