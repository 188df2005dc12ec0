"""The verbs that make files, from data to metrics: one for each rule of Snakemake."""

import json
from pathlib import Path

from rtm.cli import data as data_cli
from rtm.cli.context import Arguments, Context
from rtm.config.loading import pick
from rtm.core.errors import UserError
from rtm.lineage.environment import environment
from rtm.lineage.receipts import Ledger
from rtm.pipeline.graph import jobs


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
            fetch_network(name, layout.weights(name), layout.downloads(), source)


def reference(arguments: Arguments) -> None:
    """Extract the features of a dataset under a protocol; generated images are compared with them."""
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

    context = Context(arguments)
    experiment = context.experiment(arguments.experiment, arguments.seed)
    train_experiment(context.config, context.layout, experiment, arguments.seed)


def pilot(arguments: Arguments) -> None:
    """Try rejection radii in short trainings, and name the one to write into params/recipes.yaml."""
    from rtm.core.devices import best_device
    from rtm.training.assembly import setting_of
    from rtm.training.pilot import pilot as try_radii

    context = Context(arguments)
    experiment = context.experiment(arguments.experiment)
    steps = arguments.steps or experiment.steps()
    setting, tried = setting_of(context.layout, experiment, arguments.seed, best_device()), []
    print(f"{'epsilon':>8} {'radius':>8} {'rejected':>9} {'gap':>7}   after {steps:,} steps of {experiment.name}")
    for each in try_radii(setting, arguments.epsilon, steps):
        print(f"{each.epsilon:8g} {each.radius:8.4f} {each.rejected:9.2%} {each.gap:7.4f}", flush=True)
        tried.append(each)
    best = min(tried, key=lambda each: each.gap)
    print(f"The gap is least at `epsilon: {best.epsilon:g}`; write it under imle of the recipe of {experiment.name}.")


def sample(arguments: Arguments) -> None:
    """Generate the images to measure, as trained and at every H of the sweep."""
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


def evaluate(arguments: Arguments) -> None:
    """Measure an experiment's samples, those of params/foreign.yaml, or any folder or array of images."""
    context, protocol = Context(arguments), arguments.protocol
    _refuse_unused(arguments)
    if arguments.dataset:
        _evaluate_images(context, arguments)
        return
    if arguments.subject in context.config.params.foreign:
        from rtm.metrics.foreign import write_foreign

        foreign = context.config.params.foreign[arguments.subject]
        pick(dict.fromkeys(foreign.protocols), protocol, f"protocol of {arguments.subject}")
        with context.recorded("foreign", f"{arguments.subject}/{protocol}"):
            write_foreign(context.config, context.layout, arguments.subject, protocol)
        return
    from rtm.metrics.evaluate import write_metrics

    experiment = context.experiment(arguments.subject, arguments.seed)
    known = {name: name for name in experiment.recipe.evaluation.protocols}
    pick(known, protocol, f"protocol of {experiment.name}")
    if context.served("evaluate", f"{experiment.name}/{protocol}/seed{arguments.seed}"):
        return
    with context.recorded("evaluate", f"{experiment.name}/{protocol}/seed{arguments.seed}"):
        write_metrics(context.config, context.layout, experiment, protocol, arguments.seed)


def _refuse_unused(arguments: Arguments) -> None:
    """Refuse options of `rtm evaluate` that would have no effect."""
    if arguments.held_out and not arguments.memorisation:
        raise UserError("--held-out needs --memorisation; add --memorisation, or leave it out.")
    if (arguments.bootstrap or arguments.memorisation) and not arguments.dataset:
        raise UserError("--bootstrap and --memorisation need --dataset (a training set); add it, or leave them out.")


def _evaluate_images(context: Context, arguments: Arguments) -> None:
    """Measure images of any origin and print the metrics as JSON."""
    from rtm.metrics.foreign import evaluate_images

    pick(context.config.params.datasets, arguments.dataset, "dataset")
    pick(context.config.params.protocols, arguments.protocol, "protocol")
    ledger = Ledger()
    ledger.verify(jobs(context.config)[f"reference/{arguments.dataset}/{arguments.protocol}"])
    ledger.hashes.save()
    measured = evaluate_images(
        context.config,
        context.layout,
        Path(arguments.subject),
        arguments.dataset,
        arguments.protocol,
        arguments.bootstrap,
        arguments.memorisation,
        arguments.held_out,
    )
    measured["provenance"]["environment"] = environment(["rtm.metrics.foreign"])
    print(json.dumps(measured, indent=2))


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
    """Mean and standard deviation of an experiment's metrics over its seeds."""
    from rtm.reports.summary import write_summary

    context = Context(arguments)
    name = context.experiment(arguments.experiment).name
    with context.recorded("summary", name):
        write_summary(context.config, context.layout, name)
