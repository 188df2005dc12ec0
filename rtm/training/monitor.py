"""Measurements during training. They select the checkpoint, or they are only for the curve."""

import numpy as np
from torch import nn

from rtm.config import Config
from rtm.core.layout import Layout
from rtm.core.randomness import permutation, seed_of
from rtm.methods.base import Setting
from rtm.models.drawing import draw_many
from rtm.training.loop import Watch


def watch_of(config: Config, layout: Layout, setting: Setting) -> Watch | None:
    """FID during training: from all samples of a protocol if FID selects the weights (App. F), else from few samples,
    for the curves."""
    recipe = setting.experiment.recipe
    if recipe.stylegan2 is not None and recipe.stylegan2.select == "best":
        return selection(config, layout, setting)
    return looks(layout, setting) if recipe.training.watch else None


def selection(config: Config, layout: Layout, setting: Setting) -> Watch:
    from rtm.metrics.evaluate import fid_of

    experiment, gan = setting.experiment, setting.experiment.recipe.stylegan2
    assert gan is not None
    protocol = config.params.protocols[gan.select_protocol]
    required = protocol.required(experiment.dataset_name)
    reference = layout.reference(experiment.dataset_name, gan.select_protocol)
    built, batch = experiment.architecture, experiment.recipe.evaluation.batch

    def select(generator: nn.Module) -> dict[str, float]:
        drawn = draw_many(generator, built, seed_of("selection"), required, batch, setting.device)
        return {"fid": fid_of(drawn, reference, protocol, layout)}

    return Watch(gan.select_every, select, selects=True)


def looks(layout: Layout, setting: Setting) -> Watch:
    from rtm.metrics.evaluate import curve_metrics

    experiment, watching = setting.experiment, setting.experiment.recipe.training.watch
    assert watching is not None
    chosen = permutation(seed_of("watch"), len(setting.images))[: watching.samples].sort().values.numpy()
    measured = curve_metrics(np.asarray(setting.images.pixels[chosen]), watching, layout)
    built, batch = experiment.architecture, experiment.recipe.evaluation.batch
    every = -(-experiment.steps() // watching.looks)

    def measure(generator: nn.Module) -> dict[str, float]:
        return measured(draw_many(generator, built, seed_of("selection"), watching.samples, batch, setting.device))

    return Watch(every, measure, selects=False)
