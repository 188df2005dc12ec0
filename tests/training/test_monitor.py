"""Measurements during training: how often, of how many images, and the same numbers as by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support import PARAMS, checkpoints, smoke_workspace
from support.checkpoints import GAN, IMLE
from torch import nn

from rtm.config import Experiment, load
from rtm.core.randomness import seed_of
from rtm.methods.base import Setting
from rtm.metrics.digits import DigitsExtractor
from rtm.metrics.features import extract
from rtm.metrics.fid import frechet_distance
from rtm.metrics.image_set import ImageSet
from rtm.metrics.prdc import prdc
from rtm.models.drawing import draw_many
from rtm.training.monitor import looks, selection


def changed(experiment: Experiment, part: str, **values: Any) -> Experiment:
    """The experiment with other values in a part of its recipe."""
    recipe = experiment.recipe
    values_of_part = getattr(recipe, part).model_copy(update=values)
    return replace(experiment, recipe=recipe.model_copy(update={part: values_of_part}))


def setting_of(folder: Path, experiment: Experiment) -> tuple[Setting, DigitsExtractor]:
    """A training, and the untrained digit classifier that measures it."""
    setting = smoke_workspace.setting(folder, experiment)
    assert setting.weights is not None
    return setting, DigitsExtractor(setting.weights)


def drawn(
    folder: Path,
    setting: Setting,
    number: int,
    extractor: DigitsExtractor,
) -> tuple[nn.Module, NDArray[np.float32]]:
    """A generator, and the features of the images that are measured."""
    generator = checkpoints.write(folder / "w.safetensors", setting.experiment)
    architecture = setting.experiment.architecture
    batch = setting.experiment.recipe.evaluation.batch
    images = draw_many(generator, architecture, seed_of("selection"), number, batch, setting.device)
    return generator, extract(images, extractor, number, "cpu").features


def test_a_curve_is_of_few_samples_against_as_many_images(tmp_path: Path) -> None:
    experiment = smoke_workspace.experiment(IMLE, epochs=5)  # 30 steps
    watching = experiment.recipe.training.watch
    assert watching is not None
    few = watching.model_copy(update={"looks": 4, "samples": 48, "k": 5})  # 48 are all images of the dataset
    setting, extractor = setting_of(tmp_path, changed(experiment, "training", watch=few))
    assert setting.weights is not None
    watch = looks({"digit_classifier": setting.weights})(setting)
    assert not watch.selects
    assert watch.every == 8  # steps 8, 16, 24; the loop adds the last
    generator, fake = drawn(tmp_path, setting, 48, extractor)
    real = extract(setting.images.pixels, extractor, 48, "cpu").features
    expected = {"fid": frechet_distance(real, fake), **prdc(real, fake, k=5)}
    measured = watch.measure(generator)
    assert measured == pytest.approx({name: expected[name] for name in ("fid", "precision", "recall")}, abs=1e-6)


def test_a_selection_is_by_the_fid_of_all_samples_of_a_protocol(tmp_path: Path) -> None:
    experiment = changed(smoke_workspace.experiment(GAN), "stylegan2", select_every=7)
    setting, extractor = setting_of(tmp_path, experiment)
    assert setting.weights is not None
    real = extract(setting.images.pixels, extractor, 48, "cpu")
    reference = tmp_path / "reference.safetensors"
    ImageSet(real, real, {}).save(reference)
    protocol = load("smoke", PARAMS).params.protocols["studiogan"]
    watch = selection(protocol, reference, {"digit_classifier": setting.weights})(setting)
    assert watch.selects
    assert watch.every == 7
    generator, fake = drawn(tmp_path, setting, protocol.required("cifar10"), extractor)
    assert watch.measure(generator) == pytest.approx({"fid": frechet_distance(real.features, fake)}, rel=1e-5)
