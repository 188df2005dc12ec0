"""`rtm <verb>`: every step of the pipeline as a command of its own.

Heavy modules are imported inside the verbs, so that `rtm --help`, tables and figures start without torch.
"""

import argparse
import errno
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path

from rtm.cli import data as data_cli
from rtm.cli.context import Arguments, Context
from rtm.cli.evaluating import add_options as add_evaluation
from rtm.cli.evaluating import evaluate, features
from rtm.cli.generate import add_options as add_generate
from rtm.cli.generate import generate, install
from rtm.cli.lineage import USAGE as LINEAGE_USAGE
from rtm.cli.making import fetch, gallery, latency, pilot, reference, sample, summary, train
from rtm.cli.place import given_path, given_target, go_to_root
from rtm.cli.push import add_options as add_push
from rtm.cli.push import push_checkpoint
from rtm.cli.runs import add_options as add_runs
from rtm.cli.runs import runs
from rtm.cli.showing import doctor, figure, pdf, plan, print_schema, report, status, table
from rtm.cli.store import add_options as add_store
from rtm.cli.store import store
from rtm.cli.usage import Help
from rtm.core.errors import UserError, fail, printable
from rtm.trial.recipe import RESOLUTIONS

EXTRAS = {  # modules that only some verbs import
    **dict.fromkeys(("scipy", "torchvision", "torch_fidelity"), "metrics"),
    **dict.fromkeys(("lpips", "sklearn", "pandas", "matplotlib", "jinja2", "requests", "google_crc32c"), "pipeline"),
    **dict.fromkeys(("snakemake", "dvc"), "pipeline"),
    "huggingface_hub": "hub",
}
TORCH_FILES = "inline_container"  # the part of torch that writes files; its error for a full disk has no other mark
FAULTS = {  # faults of the machine, with advice
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
    """Check the datasets that are here, show one (contact sheet, counts, licence, citation), or record its sha256."""
    context = Context(arguments)
    data_cli.data(context.config, context.layout, arguments.action, arguments.names)


def lineage(arguments: Arguments) -> None:
    """Show where a result comes from, or what is stale and why; write DVC's files."""
    from rtm.cli import lineage as lineage_cli

    lineage_cli.lineage(arguments.words, arguments.reason, arguments.cell)


def demo(arguments: Arguments) -> None:
    """Run the whole pipeline on the embedded digits, with a live display, and print the tables."""
    from rtm.cli.demo import run

    if arguments.cores < 1:
        raise UserError(f"--cores is {arguments.cores}; give at least 1.")
    run(arguments.cores)


def completion(arguments: Arguments) -> None:
    """Print a script for tab completion; in ~/.bashrc: eval "$(rtm completion bash)"."""
    from rtm.cli.completion import script

    print(script(_parser(), arguments.shell))


def try_folder(arguments: Arguments) -> None:
    """Train MLP and RTM side by side on a folder of images; the same command resumes."""
    from rtm.cli.trying import try_folder as run

    run(arguments)


def _parser() -> argparse.ArgumentParser:
    text = "Recursive Token Mapper: one verb for each step from data to LaTeX. Snakemake calls them; each works alone."
    parser = argparse.ArgumentParser(prog="rtm", description=f"{text} Start with `rtm demo`.")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)

    def verb(
        call: Callable[[Arguments], None], name: str | None = None, scaled: bool = True
    ) -> argparse.ArgumentParser:
        text = (call.__doc__ or "").strip()
        added = verbs.add_parser(name or call.__name__, help=text, description=text, formatter_class=Help)
        added.set_defaults(call=call)
        if scaled:
            added.add_argument("--scale", default="paper", help="paper (the default), demo, desk, smoke, or try/NAME")
        return added

    def of_experiment(call: Callable[[Arguments], None]) -> argparse.ArgumentParser:
        added = verb(call)
        added.add_argument("experiment", help="the name of an experiment in params/, or of a variant")
        return added

    fetching = verb(fetch)
    text = "a dataset of params/datasets.yaml, or inception, vgg16, dinov2, digit_classifier"
    fetching.add_argument("name", help=text)
    fetching.add_argument("--source", type=given_path, help="take this folder, archive or weights file")
    fetching.add_argument("--wait", action="store_true", help="wait for a file that a person must download")
    looking = verb(data)
    looking.epilog = data_cli.USAGE
    looking.add_argument("action", choices=data_cli.ACTIONS)
    looking.add_argument("names", nargs="*", metavar="NAME", help="datasets of params/datasets.yaml")
    referring = verb(reference)
    referring.add_argument("dataset", help="a name in params/datasets.yaml")
    referring.add_argument("protocol", help="a name in params/protocols.yaml")
    training, *others = (of_experiment(call) for call in (train, sample, gallery))
    training.add_argument("--gpus", type=int, metavar="N", help="use at most N GPUs, with the same results, for longer")
    for seeded in (training, *others):
        seeded.add_argument("--seed", type=int, default=0, help="which of its seeds (default 0)")
    text = "train a variant instead, in variants/: mapper.H=4 training.lr=1e-3"
    training.add_argument("changes", nargs="*", metavar="KEY=VALUE", help=text)
    _add_pilot(of_experiment(pilot))
    add_evaluation(verb(evaluate))
    clearing = verb(features)
    clearing.add_argument("--clear", action="store_true", help="remove them; they are extracted again when needed")
    add_generate(verb(generate))
    add_push(verb(push_checkpoint, "push-checkpoint"))
    of_experiment(latency)
    of_experiment(summary)
    tabling = verb(table)
    tabling.add_argument("name", help="a name in params/tables.yaml")
    tabling.add_argument("--available", action="store_true", help="render only the results that exist now")
    verb(figure).add_argument("name", help="a name in params/figures.yaml")
    verb(report)
    verb(pdf)
    tracing = verb(lineage, scaled=False)
    tracing.epilog = LINEAGE_USAGE
    tracing.add_argument(
        "words", nargs="+", type=given_target, metavar="WORD", help="a file, or an action with its targets: see below"
    )
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
    verb(completion, scaled=False).add_argument("shell", choices=("bash", "zsh", "fish"))
    _add_trying(verb(try_folder, "try", scaled=False))
    verb(print_schema, "schema", scaled=False)
    return parser


def _add_trying(trying: argparse.ArgumentParser) -> None:
    trying.add_argument("source", nargs="?", type=given_path, metavar="FOLDER", help="images, or a zip or tar of them")
    trying.add_argument("--name", help="of the trial (default: the folder's)")
    trying.add_argument("--minutes", type=float, help="of training (default: 10, with a GPU 60)")
    trying.add_argument("--epochs", type=int, help="of each training, instead of --minutes")
    trying.add_argument("--resolution", type=int, choices=RESOLUTIONS, help="in pixels (default: by the machine)")
    trying.add_argument("--pictures", action="store_true", help="make pictures and measure nothing")
    trying.add_argument("--prepare", action="store_true", help="write images and parameters, to train elsewhere")
    trying.add_argument("--export", metavar="NAME", help="write a trial into params/ instead")


def _add_pilot(piloting: argparse.ArgumentParser) -> None:
    radii, text = [0.0, 0.25, 0.5, 0.75, 1.0], "values of imle.epsilon to try (default: %(default)s)"
    piloting.add_argument("--epsilon", type=float, nargs="+", default=radii, metavar="E", help=text)
    piloting.add_argument("--steps", type=int, help="length of each training (default: the recipe's)")
    piloting.add_argument("--seed", type=int, default=0, help="any seed (default 0)")


def _parsed() -> Arguments:
    """The parsed command line. After an option, argparse does not continue a list of words, so they are added here."""
    parser = _parser()
    arguments, rest = parser.parse_known_args()
    if rest and ("changes" not in arguments or any(word.startswith("-") for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        arguments.changes += rest
    return arguments


def main() -> None:
    gc.set_threshold(20_000, 50, 50)  # torch's modules are half a million objects that never become garbage
    go_to_root()
    arguments = _parsed()
    # find snakemake, dvc and the `rtm` of rules beside this Python, even if its environment is not activated
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    try:
        arguments.call(arguments)
    except UserError as error:
        fail(error)
    except ModuleNotFoundError as error:
        if not error.name or error.name.split(".")[0] not in EXTRAS:
            raise
        fail(f"{error.name} is not installed; {install(EXTRAS[error.name.split('.')[0]])}.")
    except RuntimeError as error:
        if TORCH_FILES not in str(error):
            raise
        fail(f"torch could not write a whole file; free some space in {Path.cwd()}, and run this again.")
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # `rtm ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.errno not in FAULTS:
            raise
        place = printable(error.filename or Path.cwd())
        fail(f"{place}: {error.strerror}; {FAULTS[error.errno]}, and run this again.")
    finally:
        gc.freeze()  # so the interpreter ends faster: its last collections skip all modules


if __name__ == "__main__":
    main()
