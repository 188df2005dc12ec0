"""A variant differs only in the values in its name, and never shares a file with the recorded experiment."""

from dataclasses import replace

import pytest
from support import PARAMS

from rtm.config import load
from rtm.config.variants import Variant
from rtm.core.errors import UserError
from rtm.stages.graph import jobs


def test_only_what_is_named_differs() -> None:
    variant = Variant.of("digits_rtm", ["training.lr=1e-3", "mapper.H=4"])
    assert variant.name == "digits_rtm+mapper.H=4+training.lr=0.001"  # sorted by key
    recorded = load("demo", PARAMS).experiments["digits_rtm"]
    varied = load("demo", PARAMS, variant)
    (changed,) = varied.experiments.values()
    training = recorded.recipe.training.model_copy(update={"lr": 0.001})
    assert changed == replace(
        recorded,
        name=variant.name,
        recipe=recorded.recipe.model_copy(update={"training": training}),
        mapper=recorded.mapper.model_copy(update={"H": 4}),
    )


def test_its_name_is_all_that_is_needed_to_find_it_again() -> None:
    variant = Variant.of("digits_rtm", ["mapper.H=4", "training.betas=[0.0, 0.9]"])
    assert Variant.of(variant.name) == variant


def test_it_has_files_and_receipts_of_its_own() -> None:
    variant = load("demo", PARAMS, Variant.of("digits_rtm+mapper.H=4"))
    own = [job for job in jobs(variant).values() if "experiment" in job.names]
    recorded = jobs(load("demo", PARAMS))
    files = {path for job in recorded.values() for path in (*job.outputs.values(), job.receipt)}
    assert own
    assert not files & {path for job in own for path in (*job.outputs.values(), job.receipt)}
    shared = recorded.keys() & jobs(variant).keys()
    assert any("digits300" in job for job in shared)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digits_rtm+mapper.Hs=4", "mappers.digits_rtm.Hs: unknown key 'Hs'; choose one of H, L"),
        ("digits_rtm+mapper.H=0", "mappers.digits_rtm.H: Input should be greater than 0"),
        ("digits_rtm+mapper.H=[", "its value is not valid YAML"),
        ("digits_rtm+maper.H=4", "digits_rtm has no maper.H; choose one of mapper"),
        ("digits_rtm+training.lr.x=4", "lr is a value, not a group"),
        ("digits_rtm+dataset.count=4", "digits_rtm has no dataset.count"),
        ("digits_rtm+mapper=mlp8", "only a recursive mapper can change H at inference"),
        ("digits_rtm+mapper=mlp99", "there is no 'mlp99'"),
        ("digits_rtm+4", "'4' is no change; write key=value"),
        ("digits_rtm+", "'' is no change; write key=value"),
        ("digits+mapper.H=4", "There is no experiment at scale demo named 'digits'"),
        (
            "cifar10_imle_rtm+mapper.H=4",
            "cifar10_imle_rtm is not at scale demo; add `--scale paper` or `--scale smoke`",
        ),
        (f"digits_rtm+evaluation.protocols=[{'a' * 200}]", "cannot name a file"),
    ],
)
def test_a_mistake_is_one_sentence(name: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        variant = Variant.of(name)
        assert variant.name
        load("demo", PARAMS, variant)
    assert message in str(error.value)


def test_another_mapper_of_params_can_be_taken() -> None:
    variant = Variant.of("digits_rtm+mapper=digits_mlp8+sweep=[]")
    (experiment,) = load("demo", PARAMS, variant).experiments.values()
    assert experiment.mapper == load("demo", PARAMS).params.mappers["digits_mlp8"]
    assert not experiment.sweep
