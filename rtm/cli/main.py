"""`rtm <verb>`. Heavy modules are imported inside the verbs, so that `rtm --help`, tables and figures start without
torch."""

import argparse
import errno
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from rtm.cli import completion, demo, doctor, evaluating, generate, lineage, making, plan, showing, trying
from rtm.cli.place import go_to_root
from rtm.cli.usage import Help
from rtm.config.architecture import VERSION
from rtm.core.errors import UserError, fail, printable
from rtm.core.files import written_in

Arguments = argparse.Namespace
Parser = argparse.ArgumentParser


class Verb(NamedTuple):
    call: Callable[[Arguments], None]
    add_options: Callable[[Parser], None]
    name: str
    is_scaled: bool = True

    @property
    def help(self) -> str:
        return " ".join((self.call.__doc__ or "").split())


VERBS = {
    "Start": (
        Verb(demo.demo, demo.add_demo, "demo", is_scaled=False),
        Verb(trying.try_folder, trying.add_options, "try", is_scaled=False),
        Verb(generate.generate, generate.add_options, "generate"),
        Verb(evaluating.evaluate, evaluating.add_options, "evaluate"),
        Verb(making.report, making.add_report, "report"),
        Verb(showing.status, showing.add_status, "status"),
        Verb(doctor.doctor, doctor.add_options, "doctor"),
    ),
    "Run": (
        Verb(making.fetch, making.add_fetch, "fetch"),
        Verb(showing.show, showing.add_show, "show"),
        Verb(plan.plan, plan.add_options, "plan"),
        Verb(making.train, making.add_train, "train"),
        Verb(making.table, making.add_table, "table"),
        Verb(making.figure, making.add_figure, "figure"),
        Verb(making.make, making.add_make, "make", is_scaled=False),
    ),
    "Evidence": (Verb(lineage.lineage, lineage.add_options, "lineage", is_scaled=False),),
}
BY_NAME = {verb.name: verb for verbs in VERBS.values() for verb in verbs}
EXTRAS = {  # modules that only some verbs import
    **dict.fromkeys(("scipy", "torchvision", "torch_fidelity"), "metrics"),
    **dict.fromkeys(("lpips", "faiss", "pandas", "matplotlib", "jinja2", "requests", "google_crc32c"), "pipeline"),
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
FULL = (errno.ENOSPC, errno.EDQUOT)


class _Parser(argparse.ArgumentParser):
    """Answers a misspelt verb with the nearest ones."""

    def error(self, message: str) -> None:  # type: ignore[override]
        word = next(iter(sys.argv[1:]), "-")
        if "invalid choice" in message and word not in BY_NAME and not word.startswith("-"):
            near = get_close_matches(word, BY_NAME, n=2, cutoff=0.5)
            meant = f"Did you mean {' or '.join(near)}? " if near else ""
            message = f"there is no verb {printable(repr(word))}. {meant}`rtm --help` lists them."
        super().error(message)


def parser() -> Parser:
    whole = _Parser(
        prog="rtm", description=_overview(), formatter_class=Help, usage="rtm [--help] [--version] VERB ..."
    )
    whole.add_argument("--version", action="version", version=f"rtm {VERSION}")
    whole.add_argument("--completion", choices=completion.SHELLS, help="print a script for tab completion")
    verbs = whole.add_subparsers(prog="rtm", metavar="VERB", help=argparse.SUPPRESS, dest="verb")
    for name, verb in BY_NAME.items():
        added = verbs.add_parser(name, help=verb.help, description=verb.help, formatter_class=Help)
        added.set_defaults(call=verb.call)
        if verb.is_scaled:
            added.add_argument("--scale", default="paper", help="paper (the default), demo, desk, smoke, or try/NAME")
        verb.add_options(added)
    return whole


def _overview() -> str:
    lines = ["Recursive Token Mapper: a pipeline from data to LaTeX. Snakemake runs it; each verb works alone, too."]
    for group, verbs in VERBS.items():
        lines += ["", f"{group}:"]
        lines += [f"  {verb.name:<10}  {verb.help}" for verb in verbs]
    return "\n".join([*lines, ""])


def _parsed() -> Arguments:
    """The parsed command line. After an option, argparse does not continue a list of words, so they are added here."""
    whole = parser()
    words = sys.argv[1:]
    arguments, rest = whole.parse_known_args(["--help"] if words in ([], ["help"]) else words)
    if "changes" in arguments and not any(word.startswith("-") for word in rest):
        arguments.changes += rest
    elif rest:
        whole.error(f"unrecognized arguments: {' '.join(rest)}")
    if arguments.completion:
        print(completion.script(whole, arguments.completion))
        sys.exit()
    if arguments.verb is None:
        whole.error("name a verb; `rtm --help` lists them")
    return arguments


def main() -> None:
    gc.set_threshold(20_000, 50, 50)  # torch's modules are half a million objects that never become garbage
    go_to_root()
    # find snakemake, dvc and the `rtm` of rules beside this Python, even if its environment is not activated
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    try:
        arguments = _parsed()
        arguments.call(arguments)
    except UserError as error:
        fail(error)
    except ModuleNotFoundError as error:
        package = str(error.name).split(".")[0]
        if package not in EXTRAS:
            raise
        fail(f"{error.name} is not installed; {generate.install(EXTRAS[package])}.")
    except RuntimeError as error:
        if TORCH_FILES not in str(error):
            raise
        full = printable(written_in(error) or _fullest())
        fail(f"torch could not write a whole file; free some space in {full}, and run this again.")
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # `rtm ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.errno not in FAULTS:
            raise
        place: object = error.filename or written_in(error) or _fullest()
        if error.errno in FULL:
            place = written_in(error) or _fullest()
        fail(f"{printable(place)}: {error.strerror}; {FAULTS[error.errno]}, and run this again.")
    finally:
        gc.freeze()  # so the interpreter ends faster: its last collections skip all modules


def _fullest() -> Path:
    """The folder with the least free space, of those that a verb may write to."""
    here = Path.cwd()
    linked = [path for path in here.iterdir() if path.is_dir()]
    places = [here, *linked, Path(tempfile.gettempdir())]
    return min(places, key=lambda place: shutil.disk_usage(place).free)


if __name__ == "__main__":
    main()
