"""`rtm <verb>`: every step of the pipeline as a command of its own.

Heavy modules are imported inside the verbs, so that `rtm --help`, tables and figures start without torch.
"""

import argparse
import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

from rtm.cli import data as data_cli
from rtm.cli.context import Arguments, Context
from rtm.cli.lineage import USAGE as LINEAGE_USAGE
from rtm.cli.making import evaluate, fetch, gallery, latency, pilot, reference, sample, summary, train
from rtm.cli.runs import add_options as add_runs
from rtm.cli.runs import runs
from rtm.cli.showing import doctor, figure, pdf, plan, print_schema, report, status, table
from rtm.cli.store import add_options as add_store
from rtm.cli.store import store
from rtm.core.errors import UserError, printable

FAULTS = {  # of the machine, and what helps
    errno.EROFS: "make this place writable, or work in another one",
    errno.EACCES: "ask its owner for permission",
    errno.EPERM: "ask its owner for permission",
    errno.ENOSPC: "free some space there",
    errno.EDQUOT: "free some space there, or ask for a larger quota",
    errno.EFBIG: "raise the limit of a file's size (`ulimit -f unlimited`)",
    errno.EMFILE: "raise the limit of open files (`ulimit -n 4096`)",
    errno.EIO: "look after this disk",
    errno.ESTALE: "mount this network disk again",
}


def data(arguments: Arguments) -> None:
    """Check the datasets that are here, show one (contact sheet, counts, licence, citation), or pin its sha256."""
    context = Context(arguments)
    data_cli.data(context.config, context.layout, arguments.action, arguments.names)


def lineage(arguments: Arguments) -> None:
    """Show where a result comes from, what is stale and why; write DVC's files."""
    from rtm.cli import lineage as lineage_cli

    lineage_cli.lineage(arguments.words, arguments.reason, arguments.cell)


def demo(arguments: Arguments) -> None:
    """Run the whole pipeline on the embedded digits, with a live display, and print the tables."""
    from rtm.cli.demo import run

    if arguments.cores < 1:
        raise UserError(f"--cores is {arguments.cores}; give at least 1.")
    run(arguments.cores)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rtm",
        description="Recursive Token Mapper: from data to LaTeX, one verb for each step. Snakemake calls them in "
        "order; each also works alone. Start with `rtm demo`.",
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)

    def verb(
        call: Callable[[Arguments], None], name: str | None = None, scaled: bool = True
    ) -> argparse.ArgumentParser:
        text = (call.__doc__ or "").strip()
        added = verbs.add_parser(name or call.__name__, help=text, description=text)
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
    _add_pilot(of_experiment(pilot))
    _add_evaluation(verb(evaluate))
    of_experiment(latency)
    of_experiment(summary)
    tabling = verb(table)
    tabling.add_argument("name", help="a name in params/tables.yaml")
    tabling.add_argument("--available", action="store_true", help="render only the results that exist now")
    verb(figure).add_argument("name", help="a name in params/figures.yaml")
    verb(report)
    verb(pdf)
    tracing = verb(lineage, scaled=False)
    tracing.formatter_class, tracing.epilog = argparse.RawDescriptionHelpFormatter, LINEAGE_USAGE
    tracing.add_argument("words", nargs="+", metavar="WORD", help="a file, or an action with its targets: see below")
    tracing.add_argument("--cell", nargs=2, metavar=("ROW", "COLUMN"), help="which number of a table")
    tracing.add_argument("--reason", help="for accept: why the results stay the same")
    verb(status).add_argument("--watch", action="store_true", help="refresh every few seconds")
    add_store(verb(store, scaled=False))
    add_runs(verb(runs, scaled=False))
    planning = verb(plan)
    planning.add_argument("name", nargs="?", help="an experiment or a table; by default all experiments")
    planning.add_argument("--gpu", help="a name in params/devices.yaml (default: the recipe's gpu_model)")
    planning.add_argument("--gpus", type=int, help="how many of them (default: the recipe's)")
    trying = verb(doctor)
    trying.add_argument("--gpu", nargs="?", const="", metavar="EXPERIMENT", help="try the GPUs, and ten steps of it")
    demoing = verb(demo, scaled=False)
    demoing.add_argument("--cores", type=int, default=os.cpu_count(), help="number of cores to use (default: all)")
    verb(print_schema, "schema", scaled=False)
    return parser


def _add_pilot(piloting: argparse.ArgumentParser) -> None:
    radii, text = [0.0, 0.25, 0.5, 0.75, 1.0], "values of imle.epsilon to try (default: %(default)s)"
    piloting.add_argument("--epsilon", type=float, nargs="+", default=radii, metavar="E", help=text)
    piloting.add_argument("--steps", type=int, help="length of each training (default: the recipe's)")
    piloting.add_argument("--seed", type=int, default=0, help="any seed (default 0)")


def _add_evaluation(evaluating: argparse.ArgumentParser) -> None:
    evaluating.add_argument("subject", help="an experiment, an entry of params/foreign.yaml or, with --dataset, images")
    evaluating.add_argument("--protocol", required=True, help="a name in params/protocols.yaml")
    evaluating.add_argument("--seed", type=int, default=0, help="which of the experiment's seeds (default 0)")
    evaluating.add_argument("--dataset", help="compare any images with this dataset and print the metrics")
    evaluating.add_argument("--bootstrap", type=int, default=0, metavar="N", help="intervals from N resamples")
    evaluating.add_argument("--memorisation", action="store_true", help="look for copies of training images")
    evaluating.add_argument("--held-out", type=Path, help="for --memorisation: images that were not trained on")


def main() -> None:
    arguments = _parser().parse_args()
    # snakemake, dvc and the `rtm` of rules are found beside this Python, even if its environment is not activated
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
    except OSError as error:
        if error.errno not in FAULTS:
            raise
        place = printable(error.filename or Path.cwd())
        print(f"rtm: {place}: {error.strerror}; {FAULTS[error.errno]}, and run this again.", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
