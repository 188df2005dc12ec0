"""Each value of an experiment has one line with its origin."""

import pytest
from support import PARAMS

from rtm.config import load
from rtm.config.show import resolved
from rtm.config.variants import Variant


def lines(scale: str, name: str) -> dict[str, tuple[str, str]]:
    variant = Variant.of(name) if "+" in name else None
    rows = resolved(load(scale, PARAMS, variant), name, PARAMS)
    keys = [key for key, _, _ in rows]
    assert len(set(keys)) == len(keys)
    return {key: (value, origin.replace(f"{PARAMS}/", "params/")) for key, value, origin in rows}


def test_a_value_comes_from_its_entry_or_is_the_default() -> None:
    rows = lines("paper", "cifar10_imle_rtm")
    assert rows["imle.pool"] == ("10.0", "params/recipes.yaml recipes.cifar10_imle")
    assert rows["mapper.round_to"] == ("8", "default")
    assert rows["mapper.H"][1].startswith("params/mappers.yaml mappers.rtm_")
    assert rows["decoder.blocks.32"] == ("6", "params/decoders.yaml decoders.cifar10")
    assert rows["recipe"] == ("cifar10_imle", "params/experiments.yaml experiments.cifar10_imle_rtm")
    assert rows["dataset.count"] == ("50000", "params/datasets.yaml datasets.cifar10")
    assert rows["protocols.paper.k"] == ("3", "params/protocols.yaml protocols.paper")
    assert rows["stylegan2"] == ("null", "default")


def test_a_scale_overrides_some_values() -> None:
    rows = lines("smoke", "cifar10_imle_rtm")
    overridden = {key for key, (_, origin) in rows.items() if "params/scales.yaml scales.smoke.overrides." in origin}
    assert {"resources.gpus", "dataset.count", "mapper.H"} <= overridden
    assert rows["resources.gpus"][0] == "0"
    assert rows["training.betas"][1] == "params/recipes.yaml recipes.cifar10_imle"


def test_a_variant_gives_values_by_its_name() -> None:
    rows = lines("demo", "digits_rtm+mapper.H=4")
    assert rows["mapper.H"] == ("4", "the name of the variant")
    assert rows["mapper.L"][1].startswith("params/mappers.yaml")


@pytest.mark.parametrize("scale", ["paper", "demo", "desk", "smoke"])
def test_every_experiment_can_be_shown(scale: str) -> None:
    config = load(scale, PARAMS)
    for name in config.experiments:
        assert resolved(config, name, PARAMS)
