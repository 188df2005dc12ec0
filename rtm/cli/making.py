"""The verbs that make files, from data to metrics: one for each rule of Snakemake."""

import os
import shlex

from rtm.cli import data as data_cli
from rtm.cli.context import Arguments, Context
from rtm.config.loading import pick
from rtm.config.variants import JOINT
from rtm.core.errors import UserError


def fetch(arguments: Arguments) -> None:
    """Fetch and prepare a dataset, or the weights of a frozen network."""
    context, name, source = Context(arguments), arguments.name, arguments.source
    datasets, layout = context.config.params.datasets, context.layout
    if source and name == "digit_classifier":
        raise UserError(f"{name} is trained here on the digits; leave --source out.")
    if name in datasets:
        data_cli.fetch(context.config, layout, name, source, arguments.wait)
    elif name == "digit_classifier":
        from rtm.data.datasets import Images
        from rtm.models.digits import train_digit_classifier

        with context.recorded("fetch", name):
            train_digit_classifier(Images(layout.images("digits")), layout.weights(name))
    else:
        from rtm.data.fetch import fetch_network
        from rtm.data.weights import NETWORKS

        pick({**datasets, "digit_classifier": None, **NETWORKS}, name, "dataset or network")
        with context.recorded("fetch", name):
            fetch_network(name, layout.weights(name), layout.network_downloads(), source)


def reference(arguments: Arguments) -> None:
    """Extract the features of a dataset for a protocol; generated images are compared with them."""
    from rtm.metrics.evaluate import write_reference

    context, dataset, protocol = Context(arguments), arguments.dataset, arguments.protocol
    pick(context.config.params.datasets, dataset, "dataset")
    pick(context.config.params.protocols, protocol, "protocol")
    if context.served("reference", f"{dataset}/{protocol}"):
        return
    with context.recorded("reference", f"{dataset}/{protocol}"):
        write_reference(context.config, context.layout, dataset, protocol)


def train(arguments: Arguments) -> None:
    """Train one seed of an experiment; the same command resumes it."""
    from rtm.training.launch import train_experiment

    context, seed = Context(arguments), arguments.seed
    experiment = context.experiment(arguments.experiment, seed, arguments.changes)
    train_experiment(context.config, context.layout, experiment, seed, arguments.gpus)
    if JOINT in experiment.name and "RANK" not in os.environ:
        name, scale, layout = experiment.name, context.config.scale_name, context.layout
        print(f"This is a variant; the results of {name.partition(JOINT)[0]} are as they were.")
        print(f"weights   {layout.checkpoint(name, seed)}\ngrids     {layout.run(name, '*')}/grid_*.png")
        print(f"pictures  rtm generate {shlex.quote(f'{scale}/{name}/seed{seed}')}")


def pilot(arguments: Arguments) -> None:
    """Train with several rejection radii, and print the best one for params/recipes.yaml."""
    from rtm.core.devices import best_device
    from rtm.training.assembly import setting_of
    from rtm.training.pilot import advice
    from rtm.training.pilot import pilot as try_radii

    context = Context(arguments)
    experiment = context.experiment(arguments.experiment)
    steps = arguments.steps or experiment.steps()
    setting, tried = setting_of(context.layout, experiment, arguments.seed, best_device()), []
    print(f"{'epsilon':>8} {'radius':>8} {'rejected':>9} {'gap':>7}   after {steps:,} steps of {experiment.name}")
    for each in try_radii(setting, arguments.epsilon, steps):
        print(f"{each.epsilon:8g} {each.radius:8.4f} {each.rejected:9.2%} {each.gap:7.4f}", flush=True)
        tried.append(each)
    print(advice(tried, experiment.name))


def sample(arguments: Arguments) -> None:
    """Generate the images to measure: as trained, and with every H of the sweep."""
    from rtm.metrics.sampling import write_samples

    context, seed = Context(arguments), arguments.seed
    experiment = context.experiment(arguments.experiment, seed)
    name, layout = experiment.name, context.layout
    with context.recorded("sample", f"{name}/seed{seed}"):
        write_samples(experiment, layout.checkpoint(name, seed), layout.samples(name, seed), seed)


def gallery(arguments: Arguments) -> None:
    """Generate the few images that figures show."""
    from rtm.data.datasets import Images
    from rtm.metrics.evaluate import extractor_of
    from rtm.metrics.gallery import write_gallery

    context, seed = Context(arguments), arguments.seed
    experiment = context.experiment(arguments.experiment, seed)
    if seed != (shown := experiment.seeds[0]):
        raise UserError(f"Figures show only seed {shown} of {experiment.name}; make its gallery with --seed {shown}.")
    name, layout = experiment.name, context.layout
    protocol = context.config.params.protocols[experiment.recipe.evaluation.protocols[0]]
    if context.served("gallery", f"{name}/seed{seed}"):
        return
    with context.recorded("gallery", f"{name}/seed{seed}"):
        images = Images(layout.images(experiment.dataset_name))
        extractor = extractor_of(protocol.pr_extractor, protocol, layout)
        write_gallery(experiment, layout.checkpoint(name, seed), images, extractor, layout.gallery(name, seed), seed)


def latency(arguments: Arguments) -> None:
    """Time the generator and count its parameters."""
    from rtm.core.files import write_json
    from rtm.metrics.latency import measure_latency

    context = Context(arguments)
    experiment = context.experiment(arguments.experiment)
    name, layout = experiment.name, context.layout
    with context.recorded("latency", name):
        write_json(layout.latency(name), measure_latency(experiment, layout.checkpoint(name, experiment.seeds[0])))


def summary(arguments: Arguments) -> None:
    """Write the mean and standard deviation of an experiment's metrics over its seeds."""
    from rtm.reports.summary import write_summary

    context = Context(arguments)
    name = context.experiment(arguments.experiment).name
    with context.recorded("summary", name):
        write_summary(context.config, context.layout, name)
