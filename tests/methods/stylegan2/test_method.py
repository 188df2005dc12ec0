"""Adversarial training at toy size is exact, can be resumed, is the same on any number of processes, and learns."""

import json
from copy import deepcopy
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import PARAMS
from support.forked import forking
from torch import Tensor
from torch.testing import assert_close

from rtm.config import Experiment, load
from rtm.config.experiments import MLP, DatasetEntry, Evaluation, Mapper, Recipe, Recursive, Resources, Training
from rtm.config.experiments import StyleGAN2 as Recipe2
from rtm.core.errors import UserError
from rtm.core.pixels import to_unit
from rtm.core.sealed import unsealed
from rtm.data.datasets import Images
from rtm.data.prepare import prepare
from rtm.methods.base import Setting
from rtm.methods.stylegan2.method import StyleGAN2Method, build_discriminator
from rtm.models.drawing import draw
from rtm.models.layers import relative_change
from rtm.models.stylegan2.generator import build_generator
from rtm.training.loop import Run

MLP2 = MLP(kind="mlp", layers=2, lr_mul=0.01)
RTM = Recursive(kind="rtm", H=3, L=1, width=4)
ADA: dict[str, Any] = {"target": 0.6, "kimg": 0.2, "interval": 2}
SMALL: dict[str, Any] = {
    "architecture": "orig",
    "channel_base": 64,
    "channel_max": 8,
    "mbstd_group": 2,
    "r1_gamma": 0.1,
    "r1_every": 3,
    "ema_kimg": 0.05,
}
EVERYTHING = {**SMALL, "conditional": True, "path_length": 2.0, "path_every": 2, "mixing": 0.9, "ada": ADA}
PLAIN = {**SMALL, "conditional": False, "path_length": 0.0}


def experiment(gan: dict[str, Any], mapper: Mapper = MLP2, dim: int = 16, **training: Any) -> Experiment:
    given = {"steps": 7, "batch": 4, "lr": 0.0025, "betas": (0.0, 0.99), "save_every": 3, "grid_every": 100, **training}
    digits = DatasetEntry(title="", kind="digits", resolution=8, count=1797, classes=10, licence="", citation="")
    recipe = Recipe(
        dim=dim,
        training=Training.model_validate(given),
        stylegan2=Recipe2.model_validate(gan),
        evaluation=Evaluation(protocols=("digits",), samples=8, batch=8, latency_batch=4),
        resources=Resources(gpus=0, cpus=1, mem_gb=1, hours=1),
    )
    return Experiment("toy", recipe, "digits", digits, mapper, None, (0,), ())


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Images:
    path = tmp_path_factory.mktemp("digits") / "images.npy"
    prepare("digits", experiment(PLAIN).dataset, path)
    return Images(path)


def setting(toy: Experiment, images: Images, seed: int = 0) -> Setting:
    return Setting(toy, seed, images, None, torch.device("cpu"))


def started(toy: Experiment, images: Images, seed: int = 0) -> StyleGAN2Method:
    method = StyleGAN2Method(setting(toy, images, seed))
    method.p = 0.5 if method.gan.ada else 0.0  # as after some training
    return method


def trained(
    toy: Experiment,
    images: Images,
    steps: int,
    seed: int = 0,
) -> tuple[StyleGAN2Method, dict[str, Any]]:
    method = started(toy, images, seed)
    numbers = {}
    for step in range(steps):
        numbers = method.step(step)
    return method, numbers


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("mapper", [MLP2, RTM], ids=["mlp", "rtm"])
@pytest.mark.parametrize("gan", [PLAIN, EVERYTHING], ids=["plain", "everything"])
def test_steps_are_a_function_of_the_seed(gan: dict[str, Any], mapper: Mapper, digits: Images) -> None:
    toy = experiment(gan, mapper)
    torch.manual_seed(1)
    one, numbers = trained(toy, digits, steps=4)
    torch.manual_seed(2)
    again, _ = trained(toy, digits, steps=4)
    other, _ = trained(toy, digits, steps=4, seed=1)
    assert same(one.networks.state_dict(), again.networks.state_dict())
    assert not same(one.networks.state_dict(), other.networks.state_dict())
    expected = {"loss", "loss_d", "r1"} | ({"path", "p", "sign"} if gan is EVERYTHING else set())
    assert numbers.keys() == expected
    assert all(np.isfinite(float(value)) for value in numbers.values())


def test_all_mappers_start_beside_the_same_synthesis_and_discriminator(digits: Images) -> None:
    mlp, rtm = (StyleGAN2Method(setting(experiment(PLAIN, mapper), digits)) for mapper in (MLP2, RTM))
    assert same(mlp.generator.synthesis.state_dict(), rtm.generator.synthesis.state_dict())
    assert same(mlp.discriminator.state_dict(), rtm.discriminator.state_dict())


class KilledError(Exception):
    pass


@pytest.mark.slow(seconds=3)
def test_a_killed_run_goes_on_bit_for_bit(digits: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = experiment(EVERYTHING, RTM)

    def run(folder: str) -> Run:
        where = tmp_path / folder
        where.mkdir(exist_ok=True)
        return Run(started(toy, digits), setting(toy, digits), where)

    whole = run("whole")
    whole.train()
    broken = run("broken")
    step = StyleGAN2Method.step

    def dies(self: StyleGAN2Method, number: int) -> dict[str, Tensor | float]:
        if number == 5:  # two steps after the last save, in the middle of an interval of ADA
            raise KilledError
        return step(self, number)

    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(StyleGAN2Method, "step", dies)
        broken.train()
    resumed = run("broken")
    assert resumed.done == 3
    assert isinstance(resumed.method, StyleGAN2Method)
    assert resumed.method.signs[1] == 4  # the reals of step 2 have not yet been used to adapt p
    resumed.train()
    assert same(whole.ema.state_dict(), resumed.ema.state_dict())
    assert same(whole.method.networks.state_dict(), resumed.method.networks.state_dict())
    ends = [
        json.loads((tmp_path / name / "log.jsonl").read_text("utf-8").splitlines()[-1]) for name in ("whole", "broken")
    ]
    for end, pace in product(ends, ("seconds", "images_per_second", "memory_gb")):
        end.pop(pace)
    assert ends[0] == ends[1]
    with unsealed(tmp_path / "whole" / "state.pt") as (_, payload):
        state = torch.load(payload, weights_only=True)
    assert 0 < state["extra"]["p"] < 1
    assert ends[0]["p"] == pytest.approx(state["extra"]["p"], abs=1e-6)


def test_strength_follows_the_signs_of_the_reals(digits: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps 0 and 1 have 4 reals each, and the R1 part of step 0 has 4 more, so p moves by 12 / 200."""
    method = started(experiment(EVERYTHING), digits)
    seen: list[Tensor] = []
    count = method._count

    def remember(real_logits: Tensor) -> None:
        seen.append(real_logits.detach())
        count(real_logits)

    monkeypatch.setattr(method, "_count", remember)
    numbers = [method.step(step) for step in range(2)]
    signs = torch.cat(seen).sign()
    assert len(signs) == 12
    assert numbers[0]["p"] == 0
    assert numbers[1]["sign"] == pytest.approx(signs.mean().item())
    assert method.p == numbers[1]["p"] == pytest.approx(0.5 + 12 / 200 * (1 if signs.mean() > 0.6 else -1))


def test_average_of_the_generator_counts_images(digits: Images) -> None:
    """With any batch size, half of the initial weights is gone after ema_kimg thousand images."""
    for batch in (2, 5):
        method = StyleGAN2Method(setting(experiment(PLAIN, batch=batch), digits))
        left = np.prod([method.ema_decay(step) for step in range(1, 50 // batch + 1)])
        assert left == pytest.approx(0.5)
    ramped = StyleGAN2Method(setting(experiment({**PLAIN, "ema_ramp": 0.05}), digits))
    assert ramped.ema_decay(10) == pytest.approx(0.5 ** (4 / (0.05 * 40)))


def test_running_means_count_steps_and_not_their_parts(digits: Images) -> None:
    gan = {**PLAIN, "path_length": 2.0, "path_every": 1}
    at_once, in_parts = (trained(experiment(gan, batch=4, accumulate=parts), digits, steps=1)[0] for parts in (1, 2))
    assert_close(in_parts.generator.mapping.w_avg, at_once.generator.mapping.w_avg, rtol=1e-5, atol=1e-7)
    assert_close(in_parts.path_mean, at_once.path_mean, rtol=1e-5, atol=0)


@pytest.mark.parametrize(("batch", "group"), [(4, 2), (5, 1)], ids=["even parts", "uneven parts"])
def test_accumulation_changes_nothing_but_memory(digits: Images, batch: int, group: int) -> None:
    """The losses of the first step are the same if the groups of the minibatch deviation stay the same."""
    gan = {**PLAIN, "mbstd_group": group}
    at_once, in_parts = (
        trained(experiment(gan, batch=batch, accumulate=parts), digits, steps=1)[1] for parts in (1, 2)
    )
    for name, value in at_once.items():
        assert float(in_parts[name]) == pytest.approx(float(value), rel=1e-4)


def test_reduced_precision_leaves_regularisers_alone(digits: Images) -> None:
    exact, reduced = (started(experiment(EVERYTHING, RTM, precision=p), digits) for p in ("float32", "bfloat16"))
    assert all(parameter.dtype == torch.float32 for parameter in reduced.networks.parameters())
    number = torch.arange(4)
    pairs = torch.arange(8).view(4, 2)
    assert reduced._path_loss(number).item() == exact._path_loss(number).item()
    assert reduced._r1_loss(pairs).item() == exact._r1_loss(pairs).item()
    for loss, given in (("_generator_loss", number), ("_discriminator_loss", pairs)):
        rounded, exactly = (getattr(method, loss)(given).item() for method in (reduced, exact))
        assert rounded != exactly
        assert rounded == pytest.approx(exactly, rel=0.1)


def test_labels_must_exist(digits: Images) -> None:
    unlabelled = deepcopy(digits)
    unlabelled.labels = None
    with pytest.raises(UserError, match="no labels"):
        StyleGAN2Method(setting(experiment(EVERYTHING), unlabelled))


def test_conditional_networks_only_where_asked() -> None:
    assert build_generator(experiment(PLAIN).architecture).mapping.embedding is None
    assert build_generator(experiment(EVERYTHING).architecture).mapping.embedding is not None
    assert build_discriminator(experiment(PLAIN)).labels is None


TWO = """
import sys, torch
from pathlib import Path
sys.path.insert(0, f"{sys.path[0]}/methods/stylegan2")
from rtm.core import distributed
from rtm.data.datasets import Images
from test_method import EVERYTHING, experiment, trained
device = distributed.start(use_gpu=False)
method, numbers = trained(experiment(EVERYTHING), Images(Path(sys.argv[1])), steps=int(sys.argv[3]))
if distributed.rank() == 0:
    means = {"w": method.generator.mapping.w_avg, "path": method.path_mean, "signs": method.signs}
    torch.save({"numbers": {k: float(v) for k, v in numbers.items()}, "means": means}, sys.argv[2])
distributed.stop()
"""


@pytest.mark.slow(seconds=8)
def test_two_processes_equal_one(digits: Images, tmp_path: Path) -> None:
    images = Path(digits.pixels.filename)  # type: ignore[attr-defined]
    result = tmp_path / "two.pt"
    with forking() as forks:
        forks.run_two(TWO, str(images), str(result), "2")
    two = torch.load(result, weights_only=True)
    for parts, rel in ((1, 1e-3), (2, 2e-4)):  # with 2 parts it rounds like two processes
        method, numbers = trained(experiment(EVERYTHING, accumulate=parts), digits, steps=2)
        assert {name: float(value) for name, value in numbers.items()} == pytest.approx(two["numbers"], rel, 1e-5)
        means = {"w": method.generator.mapping.w_avg, "path": method.path_mean, "signs": method.signs}
        for name, mean in means.items():
            assert_close(two["means"][name], mean, rtol=rel, atol=1e-6)


def frechet(a: Tensor, b: Tensor) -> float:
    """The Fréchet distance of Gaussians fitted to images of 8 x 8 grey pixels."""
    x, y = (to_unit(pixels).mean(3).flatten(1).double() for pixels in (a, b))
    cov_x = torch.cov(x.T)
    cov_y = torch.cov(y.T)
    root = torch.linalg.eigvals(cov_x @ cov_y).real.clamp(min=0).sqrt().sum()
    return float((x.mean(0) - y.mean(0)).square().sum() + cov_x.trace() + cov_y.trace() - 2 * root)


SLOW_RTM = RTM.model_copy(update={"lr_mul": 0.004})  # the value for StyleGAN2 in params/mappers.yaml


@pytest.mark.slow(seconds=4)
@pytest.mark.parametrize("mapper", [MLP2, SLOW_RTM], ids=["mlp", "rtm"])
def test_a_small_gan_learns_the_digits(mapper: Mapper, digits: Images, tmp_path: Path) -> None:
    wide = {"channel_base": 256, "channel_max": 32, "mbstd_group": 4, "r1_gamma": 0.3, "r1_every": 8, "ema_kimg": 1.0}
    gan = {**SMALL, **wide, "conditional": True, "flips": False}  # a mirrored digit is no digit
    toy = experiment(gan, mapper, batch=32, steps=60, lr=0.02, save_every=1000)
    run = Run(StyleGAN2Method(setting(toy, digits)), setting(toy, digits), tmp_path)
    index = torch.arange(1000)
    reals = torch.from_numpy(np.array(digits.pixels[:1000]))
    before = frechet(draw(run.ema, toy.architecture, 0, index), reals)
    run.train()
    assert frechet(draw(run.ema, toy.architecture, 0, index), reals) < 0.5 * before


@pytest.mark.slow(seconds=9)
@pytest.mark.parametrize("conditional", [True, False], ids=["labels", "no labels"])
def test_a_step_moves_w_as_far_with_rtm_as_with_the_mlp_of_its_baseline(digits: Images, conditional: bool) -> None:
    """At the paper's size and rates, the medians over seeds differ by less than a factor of two. RTM is compared with
    the 2-layer MLP of CIFAR-10, and with the 8-layer MLP of AFHQ, whose w moves ten times as far."""
    gan = {**SMALL, "channel_base": 128, "channel_max": 16, "mbstd_group": 4, "conditional": conditional}
    mappers = load("paper", PARAMS).params.mappers

    def change(name: str, seeds: int) -> float:
        changes = []
        for seed in range(seeds):
            method = StyleGAN2Method(setting(experiment(gan, mappers[name], dim=512, batch=8), digits, seed))
            before = method.styles()
            method.step(0)
            changes.append(relative_change(before, method.styles(), 1).median().item())
        return float(np.median(changes))

    for mlp, rtm in (("style_mlp2", "style_rtm_16_1"), ("style_mlp8", "style_rtm_16_1_afhq")):
        assert 0.5 < change(rtm, seeds=9) / change(mlp, seeds=1) < 2


def test_the_log_says_how_far_a_step_moves_w(digits: Images, tmp_path: Path) -> None:
    mappers: dict[str, Mapper] = {"mlp": MLP2, "rtm": SLOW_RTM}
    for name, mapper in mappers.items():
        toy = experiment(EVERYTHING, mapper, steps=2)
        Run(started(toy, digits), setting(toy, digits), tmp_path / name).train()
        rows = [json.loads(line) for line in (tmp_path / name / "log.jsonl").read_text("utf-8").splitlines()]
        assert [row["step"] for row in rows] == [1, 2]
        assert all(0 < row["w_change"] < 0.1 for row in rows)
