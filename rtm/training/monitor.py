"""Measurements during training. They select the checkpoint, or they are only for the curve."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from torch import nn

from rtm.config.experiments import Protocol
from rtm.core.randomness import permutation, seed_of
from rtm.methods.base import Setting
from rtm.models.drawing import draw_many
from rtm.training.loop import Watch

Weights = Mapping[str, Path]  # of frozen networks, by name
WatchOf = Callable[[Setting], Watch]


def selection(protocol: Protocol, reference: Path, weights: Weights) -> WatchOf:
    """FID of as many samples as a protocol asks for: it selects the weights (App. F)."""
    from rtm.metrics.evaluate import fid_of

    def watch(setting: Setting) -> Watch:
        experiment = setting.experiment
        gan = setting.experiment.recipe.stylegan2
        assert gan is not None
        required = protocol.required(experiment.dataset_name)
        batch = experiment.recipe.evaluation.batch

        def select(generator: nn.Module) -> dict[str, float]:
            seed = seed_of("selection")
            drawn = draw_many(generator, experiment.architecture, seed, required, batch, setting.device)
            return {"fid": fid_of(drawn, reference, protocol, weights)}

        return Watch(gan.select_every, select, selects=True)

    return watch


def looks(weights: Weights) -> WatchOf:
    """FID, precision and recall of few samples, for the curve."""
    from rtm.metrics.evaluate import curve_metrics

    def watch(setting: Setting) -> Watch:
        experiment = setting.experiment
        watching = experiment.recipe.training.watch
        assert watching is not None
        order = permutation(seed_of("watch"), len(setting.images))
        rows = order[: watching.samples].sort().values.numpy()
        metrics_of = curve_metrics(np.asarray(setting.images.pixels[rows]), watching, weights)
        batch = experiment.recipe.evaluation.batch
        every = -(-experiment.steps() // watching.looks)

        def measure(generator: nn.Module) -> dict[str, float]:
            seed = seed_of("selection")
            images = draw_many(generator, experiment.architecture, seed, watching.samples, batch, setting.device)
            return metrics_of(images)

        return Watch(every, measure, selects=False)

    return watch
