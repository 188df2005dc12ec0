"""Measurements during training: which trainings, how often, and the same numbers as by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import PARAMS, checkpoints, smoke_workspace
from support.checkpoints import GAN, IMLE
from torch import nn

from rtm.config import Config, Experiment, load
from rtm.core.layout import Layout
from rtm.core.randomness import seed_of
from rtm.methods.base import Setting
from rtm.metrics import frechet_distance, prdc
from rtm.metrics.evaluate import ImageSet
from rtm.metrics.features import DigitsExtractor, extract
from rtm.models.drawing import draw_many
from rtm.training.monitor import watch_of


def changed(chosen: Experiment, part: str, **values: Any) -> Experiment:
    """The experiment with other values in a part of its recipe."""
    recipe = chosen.recipe
    return replace(chosen, recipe=recipe.model_copy(update={part: getattr(recipe, part).model_copy(update=values)}))


@pytest.fixture
def made(tmp_path: Path) -> tuple[Config, Layout, DigitsExtractor]:
    """A layout with an untrained digit classifier."""
    layout = Layout(tmp_path, tmp_path)
    smoke_workspace.setting(tmp_path, smoke_workspace.experiment(IMLE))
    layout.weights("digit_classifier").parent.mkdir()
    (tmp_path / "classifier.safetensors").rename(layout.weights("digit_classifier"))
    return load("smoke", PARAMS), layout, DigitsExtractor(layout.weights("digit_classifier"))


def drawn(folder: Path, setting: Setting, number: int, extractor: DigitsExtractor) -> tuple[nn.Module, Any]:
    """A generator, and the features of the images that are measured."""
    generator = checkpoints.write(folder / "w.safetensors", setting.experiment)
    architecture, batch = setting.experiment.architecture, setting.experiment.recipe.evaluation.batch
    images = draw_many(generator, architecture, seed_of("selection"), number, batch, setting.device)
    return generator, extract(images, extractor, number, "cpu").features


def test_a_curve_is_of_few_samples_against_as_many_images(
    made: tuple[Config, Layout, DigitsExtractor], tmp_path: Path
) -> None:
    config, layout, extractor = made
    chosen = smoke_workspace.experiment(IMLE, epochs=5)  # 30 steps
    watching = chosen.recipe.training.watch
    assert watching is not None
    looks = watching.model_copy(update={"looks": 4, "samples": 48, "k": 5})  # 48 are all images of the dataset
    setting = smoke_workspace.setting(tmp_path, changed(chosen, "training", watch=looks))
    watch = watch_of(config, layout, setting)
    assert watch is not None and not watch.selects and watch.every == 8  # steps 8, 16, 24; the loop adds the last
    generator, fake = drawn(tmp_path, setting, 48, extractor)
    real = extract(setting.images.pixels, extractor, 48, "cpu").features
    expected = {"fid": frechet_distance(real, fake), **prdc(real, fake, k=5)}
    found = watch.measure(generator)
    assert found == pytest.approx({name: expected[name] for name in ("fid", "precision", "recall")}, abs=1e-6)


def test_a_selection_is_by_the_fid_of_all_samples_of_a_protocol(
    made: tuple[Config, Layout, DigitsExtractor], tmp_path: Path
) -> None:
    config, layout, extractor = made
    setting = smoke_workspace.setting(tmp_path, changed(smoke_workspace.experiment(GAN), "stylegan2", select_every=7))
    watch = watch_of(config, layout, setting)
    assert watch is not None and watch.selects and watch.every == 7
    real = extract(setting.images.pixels, extractor, 48, "cpu")
    ImageSet(real, real, {}).save(layout.reference("cifar10", "studiogan"))
    required = config.params.protocols["studiogan"].required("cifar10")
    generator, fake = drawn(tmp_path, setting, required, extractor)
    assert watch.measure(generator) == pytest.approx({"fid": frechet_distance(real.features, fake)}, rel=1e-5)


def test_who_asks_for_nothing_is_not_watched(made: tuple[Config, Layout, DigitsExtractor], tmp_path: Path) -> None:
    config, layout, _ = made
    for chosen in (
        changed(smoke_workspace.experiment(IMLE), "training", watch=None),
        changed(smoke_workspace.experiment(GAN), "stylegan2", select="last"),
    ):
        assert watch_of(config, layout, smoke_workspace.setting(tmp_path, chosen)) is None
