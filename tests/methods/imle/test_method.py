"""RS-IMLE: a round matches, rejects and remembers as the paper says."""

import math
from copy import deepcopy
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import ks_2samp
from support import smoke_workspace
from torch import Tensor
from torch.testing import assert_close

from rtm.config import Experiment, load
from rtm.config.experiments import Adaptive, Ivf
from rtm.core.errors import UserError
from rtm.core.pixels import to_unit
from rtm.methods.imle import perceptual
from rtm.methods.imle.method import ImleMethod
from rtm.models.drawing import latents
from rtm.models.mappers import RTM


def method(folder: Path, name: str = "shells_imle_rtm", **imle: object) -> ImleMethod:
    chosen = smoke_workspace.experiment(name, batch=16)
    assert chosen.recipe.imle is not None
    recipe = chosen.recipe.model_copy(update={"imle": chosen.recipe.imle.model_copy(update=imle)})
    return ImleMethod(smoke_workspace.setting(folder, Experiment(**{**vars(chosen), "recipe": recipe})))


def test_a_training_with_kept_maps_is_the_same_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = method(tmp_path)
    assert kept.targets is not None
    assert len(kept.targets[0]) == kept.n
    monkeypatch.setattr(perceptual, "LARGEST", sum(each.nbytes for each in kept.targets) - 1)
    fresh = method(tmp_path)
    assert fresh.targets is None  # the maps are one byte larger than allowed
    losses = [[trained.step(step)["loss"] for step in range(5)] for trained in (kept, fresh)]
    assert losses[0] == losses[1]
    for ours, theirs in zip(kept.generator.parameters(), fresh.generator.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def pool_distances(imle: ImleMethod) -> Tensor:
    """The n x m matrix in float64, which the real code never builds."""
    data = imle.matching.embedding(to_unit(torch.tensor(imle.setting.images.pixels).permute(0, 3, 1, 2)))
    chunks = math.ceil(imle.imle.pool * len(imle.setting.images) / imle.imle.chunk)
    with torch.no_grad():
        pool = torch.cat([imle.matching.embedding(imle._decode(chunk * imle.imle.chunk)) for chunk in range(chunks)])
    return torch.cdist(data.double(), pool.double())


def with_radius(imle: ImleMethod, epsilon: float) -> ImleMethod:
    """Set the radius as a distance, not as a multiple of the data's spacing."""
    imle.matching.__dict__["epsilon"] = epsilon
    return imle


def test_a_round_is_rejection_then_the_nearest_survivor(tmp_path: Path) -> None:
    distances = pool_distances(method(tmp_path, pool=4.0))
    epsilon = float(distances.amin(0).quantile(0.3))  # rejects about a third
    imle = with_radius(method(tmp_path, pool=4.0), epsilon)
    imle._start_epoch(0)
    rejected = distances.amin(0) < epsilon
    expected = distances.masked_fill(rejected, math.inf)
    chosen = expected.gather(1, imle.matched[:, None])[:, 0]
    assert_close(chosen, expected.amin(1), rtol=0, atol=1e-6)
    assert imle.numbers["rejected"] == pytest.approx(float(rejected.double().mean()))
    assert imle.numbers["match_mean"] == pytest.approx(float(expected.amin(1).mean()), rel=1e-5)
    assert imle.numbers["distinct_matches"] == len(set(imle.matched.tolist())) / len(imle.matched)


def test_when_everything_is_rejected_the_message_says_how_to_choose_epsilon(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"All \d+ pool samples were rejected.*set epsilon below"):
        method(tmp_path, epsilon=3.0).step(0)


def test_the_radius_is_a_multiple_of_the_spacing_of_the_data(tmp_path: Path) -> None:
    imle = method(tmp_path, epsilon=0.7)
    data = imle.matching.data_features.double()
    apart = torch.cdist(data, data, compute_mode="donot_use_mm_for_euclid_dist").fill_diagonal_(math.inf).amin(1)
    assert imle.matching.epsilon == pytest.approx(0.7 * float(apart.quantile(0.5)), rel=1e-6)
    assert imle.matching.epsilon == method(tmp_path, "shells_imle_mlp", epsilon=0.7).matching.epsilon > 0
    assert method(tmp_path, epsilon=0.0).matching.epsilon == 0


def test_the_gap_is_that_of_matched_samples_and_the_pool(tmp_path: Path) -> None:
    """It is the two-sample Kolmogorov-Smirnov distance between distances to the nearest data; scipy and the whole
    matrix give the expected value."""
    imle = method(tmp_path, pool=4.0)
    observed = pool_distances(imle).amin(0)
    with_radius(imle, float(observed.quantile(0.3)))._start_epoch(0)
    expected = ks_2samp(observed[imle.matched], observed)
    assert imle.numbers["matched_gap"] == pytest.approx(expected.statistic, abs=1e-6)
    assert 0 < imle.numbers["rejected"] < 1


def test_all_mappers_start_before_the_same_decoder(tmp_path: Path) -> None:
    decoders = [
        method(tmp_path, name).generator.decoder.state_dict() for name in ("shells_imle_rtm", "shells_imle_mlp")
    ]
    assert decoders[0].keys() == decoders[1].keys()
    assert all(torch.equal(decoders[0][name], decoders[1][name]) for name in decoders[0])


def test_a_round_lasts_as_long_as_it_should(tmp_path: Path) -> None:
    imle = method(tmp_path, refresh=2)  # 48 images in batches of 16: 3 steps an epoch
    assert [imle.step(step)["rounds"] for step in range(13)] == [1] * 6 + [2] * 6 + [3]
    assert all(imle.matched // imle.m == 2)  # all are from the pool of the third round


def test_matched_latents_are_the_pools_moved_a_little(tmp_path: Path) -> None:
    still = method(tmp_path, perturb=0.0)
    moved = method(tmp_path, perturb=0.001)
    for imle in (still, moved):
        imle._start_epoch(0)
    assert torch.equal(still.matched, moved.matched)
    assert torch.equal(still.z, latents(still.seed("pool"), still.matched, still.z.shape[1]))
    difference = (moved.z - still.z) / 0.001
    assert 0.9 < difference.std() < 1.1
    assert len(difference[:, 0].unique()) == moved.n


def test_thresholds_keep_what_is_not_learned(tmp_path: Path) -> None:
    """AdaIMLE: images below their threshold are matched again; the others keep their latents until `refresh`."""
    imle = method(tmp_path, refresh=100, adaptive=Adaptive(staleness=1, change=0.1))
    imle._start_epoch(0)
    losses = imle._all_losses()
    before = imle.matched.clone()
    imle.thresholds = torch.full((imle.n,), float(losses.median()))
    learned = losses <= imle.thresholds
    imle._start_epoch(1)
    assert torch.equal(imle.matched // imle.m, learned.long())  # from the second pool, or still from the first
    assert torch.equal(imle.matched[~learned], before[~learned])
    assert_close(imle.thresholds[learned], 0.9 * losses[learned])
    assert imle.age.tolist() == (~learned).long().tolist()


def test_a_staggered_round_renews_a_part_of_the_pairs(tmp_path: Path) -> None:
    imle = method(tmp_path, pool=16.0, refresh=4, stagger=True)
    assert imle.m == 4 * imle.n
    imle._start_epoch(0)
    assert not imle.matched.floor_divide(imle.m).any()  # all are from the first pool
    renewed: list[list[int]] = []
    for epoch in range(1, 9):
        imle._start_epoch(epoch)
        renewed.append((imle.matched // imle.m == epoch).nonzero().squeeze(1).tolist())
    assert all(len(part) == imle.n // 4 for part in renewed)
    assert sorted(chain(*renewed[:4])) == list(range(imle.n))
    assert renewed[:4] == renewed[4:]


@pytest.mark.parametrize(
    "changes",
    [{}, {"stagger": True}, {"search": Ivf(kind="ivf", lists=8, probes=2, checked=9, least=0)}],
    ids=["plain", "stagger", "search"],
)
def test_the_state_is_all_that_a_method_needs(tmp_path: Path, changes: dict[str, Any]) -> None:
    first, second = (method(tmp_path, refresh=2, **changes) for _ in range(2))
    for step in range(5):
        first.step(step)
    second.load_extra(deepcopy(first.extra()))
    second.networks.load_state_dict(first.networks.state_dict())
    second.optimizers["generator"].load_state_dict(deepcopy(first.optimizers["generator"].state_dict()))
    for step in range(5, 13):  # over several rounds
        assert float(first.step(step)["loss"]) == float(second.step(step)["loss"])


def test_the_average_follows_a_short_run_and_forgets_its_ramp(tmp_path: Path) -> None:
    """After 100 steps the last tenth of the run has over half of the weight. At the paper's lengths the ramp has no
    effect."""
    imle = method(tmp_path)
    imle.training = imle.training.model_copy(update={"ema": 0.9999, "ema_ramp": 10})

    def weight_of_the_start(steps: range) -> float:
        return math.exp(sum(math.log(imle.ema_decay(step)) for step in steps))

    assert weight_of_the_start(range(1, 101)) < 1e-9
    assert weight_of_the_start(range(91, 101)) < 0.5
    assert all(imle.ema_decay(step) == 0.9999 for step in (90_000, 10**7))
    imle.training = imle.training.model_copy(update={"ema_ramp": 1})
    assert {imle.ema_decay(step) for step in (1, 100, 10**6)} == {0.9999}
    for experiment in load("paper").experiments.values():
        if experiment.recipe.imle:
            training = experiment.recipe.training
            assert training.ema_ramp == 10
            assert training.ema ** (experiment.steps() - 90_000) < 1e-6


def test_the_learning_rate_warms_up_and_decays(tmp_path: Path) -> None:
    imle = method(tmp_path)
    imle.training = imle.training.model_copy(update={"lr": 1.0, "warmup": 4, "decay": 0.5, "decay_epochs": 2})

    assert [imle._lr(step) for step in (0, 1, 3, 5, 6, 11, 12)] == [0.25, 0.5, 1.0, 1.0, 0.5, 0.5, 0.25]


@pytest.mark.parametrize("changes", [{"accumulate": 3}, {"precision": "bfloat16"}])
def test_smaller_pieces_and_shorter_numbers_train_alike(tmp_path: Path, changes: dict[str, object]) -> None:
    plain = method(tmp_path)
    other = method(tmp_path)
    other.training = other.training.model_copy(update=changes)
    losses = [[float(imle.step(step)["loss"]) for step in range(3)] for imle in (plain, other)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5 if "accumulate" in changes else 2e-2)
    assert "precision" not in changes or losses[0] != losses[1]


def test_the_fixed_point_term_is_added_to_every_loss(tmp_path: Path) -> None:
    plain = method(tmp_path)
    held = method(tmp_path, fixed_point=2.0)
    index = torch.arange(5)
    for each in (plain, held):
        each._start_epoch(0)
    assert torch.equal(plain.z, held.z)  # the term does not change the pool, which is decoded at H
    mapper = held.generator.mapper
    assert isinstance(mapper, RTM)
    _, moved = mapper.residual(held.z[index])
    assert_close(held._losses(index), plain._losses(index) + 2 * moved)
    before = [parameter.detach().clone() for parameter in mapper.parameters()]
    held.step(0)
    plain.step(0)
    now, other = (list(each.generator.mapper.parameters()) for each in (held, plain))
    assert all(torch.equal(a, b) for a, b in zip(before, method(tmp_path).generator.mapper.parameters(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(now, other, strict=True))
