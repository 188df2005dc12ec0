"""The verbs that work without `params/` and without the packages of the pipeline: generate and evaluate."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from rtm.core.errors import UserError

VERBS = ("generate", "evaluate")


def evaluate_anywhere(arguments: Namespace) -> None:
    """Measure any images against any others by a protocol of the package."""
    from rtm.core.files import write_json
    from rtm.metrics.standalone import evaluate

    if arguments.other is None:
        raise UserError("Say what to compare with: `rtm evaluate A B`, where B is a folder, an .npy or an .npz file.")
    if getattr(arguments, "memorisation", False):
        raise UserError("--memorisation needs the datasets of params/; run it in a clone of the repository.")
    result = evaluate(
        arguments.subject, arguments.other, arguments.protocol or "paper", arguments.samples, arguments.check
    )
    print(result)
    if arguments.json:
        write_json(Path(arguments.json), result.as_dict())
    result.refuse_differences()


def add_images(parser: ArgumentParser) -> None:
    parser.add_argument("subject", metavar="A", help="a folder of images, an .npy or an .npz file")
    parser.add_argument("other", metavar="B", help="its reference")
    parser.add_argument("--protocol", help="paper (the default), studiogan, rs_imle, dinov2")
    parser.add_argument("--samples", type=int, metavar="N", help="measure a random subset of N images")
    parser.add_argument("--check", action="store_true", help="let other packages measure the same features, too")
    parser.add_argument("--json", metavar="FILE", help="write the result with its provenance")


def main(missing: str, words: Sequence[str]) -> None:
    """The command line of an install without the pipeline, where the package `missing` is not there."""
    from rtm.cli.generate import add_options, generate, install

    verb = words[0] if words else ""
    if verb not in VERBS:
        sys.exit(f"rtm: {missing} is not installed; {install('pipeline')} for all verbs but {' and '.join(VERBS)}.")
    parser = ArgumentParser(prog=f"rtm {verb}")
    (add_options if verb == "generate" else add_images)(parser)
    arguments = parser.parse_args(words[1:])
    try:
        if verb == "generate":
            generate(Namespace(scale="paper", **vars(arguments)))
        else:
            evaluate_anywhere(arguments)
    except ModuleNotFoundError as error:
        sys.exit(f"rtm: {error.name} is not installed; {install('metrics')}.")
    except UserError as error:
        sys.exit(f"rtm: {error}")
