"""`rtm.load` gives the pipeline's images from the file alone, and refuses an unusable file in one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from support import checkpoints, own_classes, smoke_workspace
from support.checkpoints import GAN, IMLE, MLP
from torch import Tensor, nn

import rtm
from rtm.checkpoints.sampler import MEAN_OF, Sampler
from rtm.config.architecture import FORMAT, VERSION
from rtm.core.errors import UserError
from rtm.core.pixels import to_pixels
from rtm.core.randomness import seed_of
from rtm.models.drawing import draw, latents, noise_of
from rtm.training.assembly import metadata_of


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
    assert expected.float().std() > 1 and not torch.equal(sampler(count=4, seed=8, first=2), expected)
    assert sampler.info["experiment"] == name and sampler.info["dataset"]["licence"]


def test_drawing_leaves_the_callers_random_numbers_alone(tmp_path: Path) -> None:
    checkpoints.write(tmp_path / "w.safetensors", IMLE)
    before = torch.random.get_rng_state()
    rtm.load(tmp_path / "w.safetensors", "cpu")(count=2)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_steps_and_halting_reach_the_mapper(recursive: tuple[nn.Module, Sampler]) -> None:
    network, sampler = recursive
    architecture, index = sampler.architecture, torch.arange(3)
    assert torch.equal(sampler(3, H=5), draw(network, architecture, 0, index, H=5))
    halted = draw(network, architecture, 0, index, tolerance=0.3, max_H=9)
    assert torch.equal(sampler(3, tolerance=0.3, max_H=9), halted)
    assert not torch.equal(sampler(3, H=5), sampler(3))


def test_truncation_moves_towards_the_mean_style(recursive: tuple[nn.Module, Sampler]) -> None:
    network, sampler = recursive
    dim, index, noise = sampler.architecture.dim, torch.arange(2), noise_of(0, torch.arange(2))

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
        ({"truncation": float("nan")}, "Truncation must be a finite number."),
        ({"count": 0}, "Count and batch must be positive"),
        ({"first": -1}, "first not negative"),
    ],
)
def test_what_a_checkpoint_cannot_use_is_one_sentence(
    recursive: tuple[nn.Module, Sampler], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        recursive[1](**options)


def test_an_mlp_has_no_steps(tmp_path: Path) -> None:
    checkpoints.write(tmp_path / "w.safetensors", MLP)
    with pytest.raises(UserError, match=r"mapper \(mlp\) takes no H; leave H out"):
        rtm.load(tmp_path / "w.safetensors", "cpu")(H=4)


# files from other people


def changed(**values: Any) -> dict[str, Any]:
    architecture = metadata_of(smoke_workspace.experiment(IMLE), 0, "", "")["architecture"]
    return {"architecture": {**architecture, **values}}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"format": 2, "version": "9.1"}, f"has format 2, and rtm {VERSION} reads format {FORMAT}; use rtm 9.1, which"),
        ({"architecture": {}}, "is damaged or of another kind"),
        (changed(dim=64), "its architecture does not fit its weights"),
        (changed(dim=8), "is damaged or of another kind"),
        (changed(dim=10**12), "a number in it is too large"),
        (changed(mapper={"kind": "mlp", "layers": 30_000}), "its architecture does not fit its weights"),
        (changed(dim="16"), "is damaged or of another kind"),
        (changed(mapper={"kind": "rtm", "H": 2, "L": 1, "width": 8, "layrs": 2}), "rtm.* does not take layrs"),
        (changed(tf32="yes"), "is damaged or of another kind"),
        (changed(classes={}), "is damaged or of another kind"),
        (changed(mapper={"kind": "rtm", "H": "2", "L": 1, "width": 8, "tokens": None}), "takes H: int, not '2'"),
        (changed(classes=-3, surprise=1), "is damaged or of another kind"),
    ],
)
def test_another_format_or_a_wrong_description_is_one_sentence(
    tmp_path: Path, metadata: dict[str, Any], message: str
) -> None:
    checkpoints.write(tmp_path / "w.safetensors", IMLE, **metadata)
    with pytest.raises(UserError, match=message) as error:
        rtm.load(tmp_path / "w.safetensors", "cpu")
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_checkpoint_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"There is no checkpoint .*; give a file, https://... or hf://"):
        rtm.load(tmp_path / "absent.safetensors")
    (tmp_path / "text").write_text("no weights")
    with pytest.raises(UserError, match="text is damaged or of another kind"):
        rtm.load(tmp_path / "text")
    save_file({"w": torch.ones(1)}, tmp_path / "other")
    with pytest.raises(UserError, match="does not describe its network"):
        rtm.load(tmp_path / "other")
    save_file({"w": torch.full((1,), torch.nan)}, tmp_path / "diverged", {"rtm": json.dumps({"format": 1})})
    with pytest.raises(UserError, match="not finite"):
        rtm.load(tmp_path / "diverged")


OWN = """
from torch import nn

print("imported")


class Linear(nn.Module):
    def __init__(self, dim, in_dim, scale=1.0):
        super().__init__()
        self.layer, self.scale = nn.Linear(in_dim, dim), scale

    def forward(self, z):
        return self.layer(z) * self.scale
"""


def test_a_class_from_outside_is_never_imported_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own_classes.install(tmp_path, "own_linear", OWN, monkeypatch)
    mapper = {"kind": "own_linear:Linear", "scale": 2.0}
    experiments = {"own": {"recipe": "fewshot_imle", "dataset": "shells", "mapper": "own"}}
    chosen = own_classes.load_with(tmp_path, mappers={"own": mapper}, experiments=experiments).experiments["own"]
    network = checkpoints.write(tmp_path / "w.safetensors", chosen)
    expected = draw(network, chosen.architecture, 0, torch.arange(2))
    cls = type(network.mapper)
    own_classes.forget("own_linear")
    capsys.readouterr()
    with pytest.raises(UserError, match=r"own_linear:Linear, a class from outside; pass classes=.* or trust=True"):
        rtm.load(tmp_path / "w.safetensors", "cpu")
    given = rtm.load(tmp_path / "w.safetensors", "cpu", classes={"own_linear:Linear": cls})  # type: ignore[dict-item]
    assert not capsys.readouterr().out
    trusted = rtm.load(tmp_path / "w.safetensors", "cpu", trust=True)
    assert capsys.readouterr().out == "imported\n"
    assert torch.equal(given(2), expected) and torch.equal(trusted(2), expected)
