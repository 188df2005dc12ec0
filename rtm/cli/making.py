"""The verbs that make one result: fetch, train, table, figure, report, and `make` for every stage."""

import os
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from rtm.cli.place import given_path, given_target
from rtm.cli.recorded import refuse_changed
from rtm.config import Config, load
from rtm.config.parameters import pick
from rtm.config.variants import JOINT, Variant
from rtm.core.errors import UserError
from rtm.lineage.recording import run
from rtm.stages import stages
from rtm.stages.base import Job
from rtm.stages.dataset import Dataset
from rtm.stages.figure import Figure
from rtm.stages.graph import check_seed, job_named
from rtm.stages.network import Network, weights_of
from rtm.stages.report import Report
from rtm.stages.table import Table
from rtm.stages.train import Train, perceptual_weights

ANYWAY = ", or add --anyway to show it without signing for it"
RADII = (0.0, 0.25, 0.5, 0.75, 1.0)  # values of imle.epsilon that a pilot tries


def fetch(arguments: Namespace) -> None:
    """Fetch and prepare a dataset or a frozen network; or check, show or pin datasets that are here."""
    from rtm.cli import data

    config = load(arguments.scale)
    if arguments.action:
        data.data(config, arguments.action, arguments.names)
        return
    if not arguments.names:
        raise UserError("Name a dataset or a network, e.g. `rtm fetch cifar10`.")
    networks = {str(names["network"]): names for names in Network().every(config)}
    for name in arguments.names:
        pick({**config.params.datasets, **networks}, name, "dataset or network")
        if name in networks:
            run(Network().job(config, network=name), source=arguments.source)
        else:
            run(Dataset().job(config, dataset=name), source=arguments.source, wait=arguments.wait)
            print(data.described(config, name))


def add_fetch(parser: ArgumentParser) -> None:
    text = "datasets of params/datasets.yaml, or inception, vgg16, dinov2, digit_classifier"
    parser.add_argument("names", nargs="*", metavar="NAME", help=text)
    parser.add_argument("--source", type=given_path, help="take this folder, archive or weights file")
    parser.add_argument("--wait", action="store_true", help="wait for a file that a person must download")
    actions = parser.add_mutually_exclusive_group()
    for action, text in (
        ("check", "read the datasets and downloads that are here, and fail if one is not the recorded one"),
        ("show", "write a contact sheet, and print counts, sizes, licence and citation"),
        ("pin", "write the sha256 of the images that are here into params/datasets.yaml"),
    ):
        actions.add_argument(f"--{action}", dest="action", action="store_const", const=action, help=text)


def train(arguments: Namespace) -> None:
    """Train one seed of an experiment; the same command resumes it."""
    config, name = experiment_of(arguments.scale, arguments.experiment, arguments.seed, arguments.changes)
    job = Train().job(config, experiment=name, seed=arguments.seed)
    if arguments.pilot is not None:
        _print_pilot(job, arguments.pilot or RADII)
        return
    run(job, gpus=arguments.gpus)
    if "RANK" in os.environ:  # each of several processes would say the same
        return
    if JOINT in name:
        print(f"This is a variant; the results of {name.partition(JOINT)[0]} are as they were.")
    scale = "" if config.scale_name == "paper" else f"{config.scale_name}/"
    print(f"weights   {job.first}")
    print(f"pictures  rtm generate {shlex.quote(f'{scale}{name}/seed{job.seed}')}")


def _print_pilot(job: Job, epsilons: Sequence[float]) -> None:
    """Train with several rejection radii, and print the best one for params/recipes.yaml."""
    from rtm.core.devices import best_device
    from rtm.data.datasets import Images
    from rtm.methods.base import Setting
    from rtm.training.pilot import advice, pilot

    images = Images(job.input(Dataset).outputs["images"])
    weights = perceptual_weights(job.experiment, weights_of(job))
    setting = Setting(job.experiment, job.seed, images, weights, best_device())
    steps = job.experiment.steps()
    radii = []
    print(f"{'epsilon':>8} {'radius':>8} {'rejected':>9} {'gap':>7}   after {steps:,} steps of {job.experiment.name}")
    for radius in pilot(setting, epsilons, steps):
        print(f"{radius.epsilon:8g} {radius.radius:8.4f} {radius.rejected:9.2%} {radius.gap:7.4f}", flush=True)
        radii.append(radius)
    print(advice(radii, job.experiment.name))


def add_train(parser: ArgumentParser) -> None:
    parser.add_argument("experiment", help="the name of an experiment in params/, or of a variant")
    parser.add_argument("--seed", type=int, default=0, help="which of its seeds (default 0)")
    parser.add_argument("--gpus", type=int, metavar="N", help="use at most N GPUs, with the same results, for longer")
    text = "print how near matched samples are with these values of imle.epsilon, and train nothing else"
    parser.add_argument("--pilot", type=float, nargs="*", metavar="E", help=text)
    text = "train a variant instead, in variants/: mapper.H=4 training.lr=1e-3"
    parser.add_argument("changes", nargs="*", default=[], metavar="KEY=VALUE", help=text)


def table(arguments: Namespace) -> None:
    """Render a table as LaTeX, CSV and Markdown, and print it."""
    from rtm.reports.sheets import build
    from rtm.reports.tables import render_table
    from rtm.reports.terminal import print_table

    config = load(arguments.scale)
    config.pick("tables", arguments.name)
    job = Table().job(config, table=arguments.name)
    if not arguments.anyway:
        refuse_changed(job, ANYWAY)
    if arguments.available or arguments.anyway:
        sheet = render_table(config, arguments.name, arguments.available)
    else:
        run(job)
        sheet = build(config, arguments.name)
    print_table(sheet)


def add_table(parser: ArgumentParser) -> None:
    parser.add_argument("name", help="a name in params/tables.yaml")
    parser.add_argument("--available", action="store_true", help="render only the results that exist now")
    _add_anyway(parser)


def _add_anyway(parser: ArgumentParser) -> None:
    text = "also show files that are not as recorded; nothing is signed for"
    parser.add_argument("--anyway", action="store_true", help=text)


def figure(arguments: Namespace) -> None:
    """Draw a figure as PDF and PNG."""
    from rtm.reports.figures import render_figure

    config = load(arguments.scale)
    config.pick("figures", arguments.name)
    job = Figure().job(config, figure=arguments.name)
    if arguments.anyway:
        render_figure(config, arguments.name)
    else:
        refuse_changed(job, ANYWAY)
        run(job)
    print(job.outputs["png"])


def add_figure(parser: ArgumentParser) -> None:
    parser.add_argument("name", help="a name in params/figures.yaml")
    _add_anyway(parser)


def report(arguments: Namespace) -> None:
    """Write one page for a browser with all results so far, or (--pdf) one PDF with all tables and figures."""
    config = load(arguments.scale)
    if arguments.pdf:
        from rtm.reports.pdf import compile_pdf, write_report

        print(compile_pdf(write_report(config)))
        return
    job = Report().job(config)
    run(job)
    print(job.first)


def add_report(parser: ArgumentParser) -> None:
    parser.add_argument("--pdf", action="store_true", help="all existing tables and figures in one PDF, by LaTeX")


def make(arguments: Namespace) -> None:
    """Make the result of one job of any stage, e.g. `rtm make demo/latency/digits_rtm`; Snakemake calls this."""
    for identifier in arguments.jobs:
        job = job_named(identifier)
        if job.stage.name in ("table", "figure"):
            refuse_changed(job)
        run(job, gpus=arguments.gpus)


def add_make(parser: ArgumentParser) -> None:
    parser.add_argument("jobs", nargs="+", type=given_target, metavar="JOB", help="[SCALE/]STAGE/NAME: see below")
    parser.add_argument("--gpus", type=int, metavar="N", help="for a training: use at most N GPUs")
    rows = [f"{'/'.join([name, *stage.parts]):<32} {stage.__doc__}" for name, stage in stages().items()]
    parser.epilog = "\n".join(rows)


def experiment_of(scale: str, name: str, seed: int | None = None, changes: Sequence[str] = ()) -> tuple[Config, str]:
    """The configuration that has an experiment, and its name there: `name` or `changes` may mean a variant."""
    config = load(scale)
    if changes or JOINT in name:
        variant = Variant.of(name, changes)
        config = load(scale, variant=variant)
        name = variant.name
    config.experiment(name)
    if seed is not None:
        check_seed(config, name, seed)
    return config, name
