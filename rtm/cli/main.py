"""`rtm <verb>`: every step of the pipeline as a command of its own.

Heavy modules are imported inside the verbs, so that `rtm --help`, tables and figures never wait for torch.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from rtm.cli import data as data_cli
from rtm.cli.lineage import USAGE as LINEAGE_USAGE
from rtm.config import Config, Experiment, load, schema
from rtm.config.loading import pick
from rtm.core.errors import UserError
from rtm.lineage.receipts import Ledger, Recording, recorded
from rtm.pipeline.graph import jobs

Arguments = argparse.Namespace


class Context:
    """The parameters of the chosen scale and where its files are."""

    def __init__(self, arguments: Arguments) -> None:
        self.config: Config = load(arguments.scale)
        self.layout = self.config.layout

    def experiment(self, name: str, seed: int | None = None) -> Experiment:
        experiment = self.config.experiment(name)
        if seed is not None and seed not in experiment.seeds:
            known = ", ".join(map(str, experiment.seeds))
            raise UserError(f"{name} has no seed {seed}; choose one of {known}, or add it to its seeds in params/.")
        return experiment

    def recorded(self, stage: str, name: str) -> AbstractContextManager[Recording]:
        return recorded(jobs(self.config)[f"{stage}/{name}"])


def fetch(arguments: Arguments) -> None:
    """Get and prepare a dataset, or the weights of a frozen network."""
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


def data(arguments: Arguments) -> None:
    """Check the datasets that are here, show one (contact sheet, counts, licence, citation), or pin its sha256."""
    context = Context(arguments)
    data_cli.data(context.config, context.layout, arguments.action, arguments.names)


def reference(arguments: Arguments) -> None:
    """Features of a dataset under a protocol: what generated images are compared with."""
    from rtm.metrics.evaluate import write_reference

    context, dataset, protocol = Context(arguments), arguments.dataset, arguments.protocol
    pick(context.config.params.datasets, dataset, "dataset")
    pick(context.config.params.protocols, protocol, "protocol")
    with context.recorded("reference", f"{dataset}/{protocol}"):
        write_reference(context.config, context.layout, dataset, protocol)


def train(arguments: Arguments) -> None:
    """Train one seed of an experiment, or go on with it; the same command resumes."""
    from rtm.training.launch import train_experiment

    context = Context(arguments)
    experiment = context.experiment(arguments.experiment, arguments.seed)
    train_experiment(context.config, context.layout, experiment, arguments.seed)


def sample(arguments: Arguments) -> None:
    """Generate the images that are measured, as trained and at every H of the sweep."""
    from rtm.models.sampling import write_samples

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
        raise UserError(f"Figures show seed {shown} of {experiment.name} alone; make its gallery with --seed {shown}.")
    name, layout = experiment.name, context.layout
    protocol = context.config.params.protocols[experiment.recipe.evaluation.protocols[0]]
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
    with context.recorded("evaluate", f"{experiment.name}/{protocol}/seed{arguments.seed}"):
        write_metrics(context.config, context.layout, experiment, protocol, arguments.seed)


def _refuse_unused(arguments: Arguments) -> None:
    """Options of `rtm evaluate` that would change nothing."""
    if arguments.held_out and not arguments.memorisation:
        raise UserError("--held-out says what is no copy; add --memorisation, or leave it out.")
    if (arguments.bootstrap or arguments.memorisation) and not arguments.dataset:
        raise UserError(
            "--bootstrap and --memorisation are for images of any origin: name the training set with --dataset, or "
            "leave them out."
        )


def _evaluate_images(context: Context, arguments: Arguments) -> None:
    """Somebody else's samples, printed as JSON."""
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
    print(json.dumps(measured, indent=2))


def latency(arguments: Arguments) -> None:
    """Time the generator and count its parameters."""
    from rtm.core.files import write_json
    from rtm.models.sampling import measure_latency

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


def table(arguments: Arguments) -> None:
    """Render a table as LaTeX, CSV and Markdown, and print it."""
    from rtm.reports.tables import render_table
    from rtm.reports.terminal import print_table

    context, name = Context(arguments), arguments.name
    pick(context.config.tables, name, f"table at scale {arguments.scale}")
    if arguments.available:
        sheet = render_table(context.config, context.layout, name, available=True)
    else:
        with context.recorded("table", name):
            sheet = render_table(context.config, context.layout, name)
    print_table(context.config, context.layout, sheet)


def figure(arguments: Arguments) -> None:
    """Draw a figure as PDF and PNG."""
    from rtm.reports.figures import render_figure

    context, name = Context(arguments), arguments.name
    pick(context.config.figures, name, f"figure at scale {arguments.scale}")
    with context.recorded("figure", name):
        render_figure(context.config, context.layout, name)


def report(arguments: Arguments) -> None:
    """Put everything there is so far on one page for a browser."""
    from rtm.reports.html import write_page
    from rtm.training.status import statuses

    context = Context(arguments)
    runs = statuses(context.config)
    with context.recorded("report", "index"):
        print(write_page(context.config, context.layout, runs))


def pdf(arguments: Arguments) -> None:
    """Put every table and figure that is there into one PDF."""
    from rtm.reports.pdf import compile_pdf, write_report

    context = Context(arguments)
    print(compile_pdf(write_report(context.config, context.layout)))


def lineage(arguments: Arguments) -> None:
    """Where a result comes from, what is stale and why, and DVC's side of it."""
    from rtm.cli import lineage as lineage_cli

    lineage_cli.lineage(arguments.words, arguments.reason, arguments.cell)


def status(arguments: Arguments) -> None:
    """Every training: its state, step, speed, time left, GPU-hours, job and loss."""
    from rtm.training.status import show

    show(arguments.scale, arguments.watch)


def doctor(arguments: Arguments) -> None:
    """What works on this machine, and what to do about what does not."""
    from rtm.cli.doctor import examine, show

    show(examine(Context(arguments).config))


def demo(arguments: Arguments) -> None:
    """The whole pipeline on the embedded digits, with a live display; prints the tables."""
    from rtm.cli.demo import run

    if arguments.cores < 1:
        raise UserError(f"--cores is {arguments.cores}; give at least 1.")
    run(arguments.cores)


def print_schema(arguments: Arguments) -> None:
    """The JSON schema of params/, for editors; kept in params/schema.json."""
    print(json.dumps(schema(), indent=2))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rtm",
        description="Recursive Token Mapper: from data to LaTeX, one step a verb. Snakemake calls these verbs in "
        "order; each works on its own too. Start with `rtm demo`.",
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)

    def verb(
        call: Callable[[Arguments], None], name: str | None = None, scaled: bool = True
    ) -> argparse.ArgumentParser:
        told = (call.__doc__ or "").strip()
        added = verbs.add_parser(name or call.__name__, help=told, description=told)
        added.set_defaults(call=call)
        if scaled:
            added.add_argument("--scale", default="paper", help="paper (the default), demo or smoke")
        return added

    def of_experiment(call: Callable[[Arguments], None]) -> argparse.ArgumentParser:
        added = verb(call)
        added.add_argument("experiment", help="a name in params/experiments.yaml (or params/demo.yaml)")
        return added

    fetching = verb(fetch)
    fetching.add_argument("name", help="a dataset of params/datasets.yaml, or inception, vgg16, digit_classifier")
    fetching.add_argument("--source", type=Path, help="a folder, archive or weights file that is here already")
    fetching.add_argument("--wait", action="store_true", help="where a person must get the file: wait for it")
    looking = verb(data)
    looking.formatter_class, looking.epilog = argparse.RawDescriptionHelpFormatter, data_cli.USAGE
    looking.add_argument("action", choices=data_cli.ACTIONS)
    looking.add_argument("names", nargs="*", metavar="NAME", help="datasets of params/datasets.yaml")
    referring = verb(reference)
    referring.add_argument("dataset", help="a name in params/datasets.yaml")
    referring.add_argument("protocol", help="a name in params/protocols.yaml")
    for call in (train, sample, gallery):
        of_experiment(call).add_argument("--seed", type=int, default=0, help="which of its seeds (default 0)")
    _add_evaluation(verb(evaluate))
    of_experiment(latency)
    of_experiment(summary)
    tabling = verb(table)
    tabling.add_argument("name", help="a name in params/tables.yaml")
    tabling.add_argument("--available", action="store_true", help="render at once from the results that are here")
    verb(figure).add_argument("name", help="a name in params/figures.yaml")
    verb(report)
    verb(pdf)
    tracing = verb(lineage, scaled=False)
    tracing.formatter_class, tracing.epilog = argparse.RawDescriptionHelpFormatter, LINEAGE_USAGE
    tracing.add_argument("words", nargs="+", metavar="WORD", help="a file, or an action with its targets: see below")
    tracing.add_argument("--cell", nargs=2, metavar=("ROW", "COLUMN"), help="which number of a table")
    tracing.add_argument("--reason", help="for accept: why the results stay the same")
    verb(status).add_argument("--watch", action="store_true", help="look again every few seconds")
    verb(doctor)
    demoing = verb(demo, scaled=False)
    demoing.add_argument("--cores", type=int, default=os.cpu_count(), help="how many to use (default: all)")
    verb(print_schema, "schema", scaled=False)
    return parser


def _add_evaluation(evaluating: argparse.ArgumentParser) -> None:
    evaluating.add_argument("subject", help="an experiment, an entry of params/foreign.yaml or, with --dataset, images")
    evaluating.add_argument("--protocol", required=True, help="a name in params/protocols.yaml")
    evaluating.add_argument("--seed", type=int, default=0, help="which of the experiment's seeds (default 0)")
    evaluating.add_argument("--dataset", help="compare images of any origin with this dataset, and print the metrics")
    evaluating.add_argument("--bootstrap", type=int, default=0, metavar="N", help="intervals from N resamples")
    evaluating.add_argument("--memorisation", action="store_true", help="look for copies of training images")
    evaluating.add_argument("--held-out", type=Path, help="images that were not trained on, for --memorisation")


def main() -> None:
    arguments = _parser().parse_args()
    # snakemake, dvc and the rules' own `rtm` are beside this one, whether or not its environment is activated
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    try:
        arguments.call(arguments)
    except UserError as error:
        print(f"rtm: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # `rtm ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
