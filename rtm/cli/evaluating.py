"""`rtm evaluate`: metrics of an experiment, or of two sets of images. `rtm features`: the features that it keeps."""

import argparse
import shutil
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rtm.cli.context import Arguments, Context
from rtm.cli.place import given_images, given_path
from rtm.config.loading import pick
from rtm.config.variants import JOINT
from rtm.core.errors import UserError
from rtm.core.files import write_json
from rtm.lineage.environment import environment
from rtm.pipeline.amounts import space
from rtm.pipeline.graph import jobs

WIDTH = 80
USAGE = """\
rtm evaluate EXPERIMENT           the stage of the pipeline, writes results/
rtm evaluate A B                  any images against any others, for example
rtm evaluate samples/ cifar10     a folder, .npy or .npz against a dataset's training images
rtm evaluate digits_rtm:H8        a variant of an experiment's samples against its dataset
rtm evaluate cifar10:test cifar10 --samples 10000 --json known.json

A and B are datasets (NAME, NAME:test), experiments, folders, .npy or .npz files; ./NAME is always a path. Numbers \
at another N than the protocol's, or against another reference, are marked `off protocol`; they fill no table."""
SHOWN = {  # metric: its printed name, factor and decimals
    "fid": ("FID", 1, 3), "fid_floor": ("  floor", 1, 3), "kid": ("KID x 1000", 1000, 4), "is": ("IS", 1, 3),
    "sure": ("sure", 1, 4), "precision": ("precision", 1, 4), "recall": ("recall", 1, 4),
    "density": ("density", 1, 4), "coverage": ("coverage", 1, 4),
}  # fmt: skip


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.epilog = USAGE
    parser.add_argument("subject", metavar="A", type=given_images, help="what to measure: see below")
    parser.add_argument("other", metavar="B", nargs="?", type=given_images, help="its reference (default: its dataset)")
    parser.add_argument("--protocol", help="in params/protocols.yaml (default: the experiment's first, or paper)")
    parser.add_argument("--samples", type=int, metavar="N", help="measure a random subset of N images, off protocol")
    parser.add_argument("--seed", type=int, default=0, help="of the experiment, and of a random subset (default 0)")
    parser.add_argument("--memorisation", action="store_true", help="look for copies of training images")
    parser.add_argument("--held-out", metavar="C", type=given_images, help="for --memorisation: images not trained on")
    parser.add_argument("--json", type=given_path, metavar="FILE", help="write the result with its provenance")


def evaluate(arguments: Arguments) -> None:
    """Measure an experiment's samples, or any images against any others."""
    context = Context(arguments)
    if arguments.held_out and not arguments.memorisation:
        raise UserError("--held-out needs --memorisation; add --memorisation, or leave it out.")
    name, colon, part = arguments.subject.partition(":")
    if JOINT in name and not Path(name).exists():
        arguments.subject = f"{context.experiment(name).name}{colon}{part}"
    options = (arguments.other, arguments.samples, arguments.json, arguments.memorisation or None)
    staged = all(each is None for each in options)
    if staged and arguments.subject in context.config.params.foreign:
        _evaluate_foreign(context, arguments)
    elif staged and arguments.subject in context.config.experiments:
        _evaluate_experiment(context, arguments)
    else:
        _compare(context, arguments)


def _evaluate_foreign(context: Context, arguments: Arguments) -> None:
    from rtm.metrics.foreign import write_foreign

    foreign = context.config.params.foreign[arguments.subject]
    protocol = arguments.protocol or foreign.protocols[0]
    pick(dict.fromkeys(foreign.protocols), protocol, f"protocol of {arguments.subject}")
    with context.recorded("foreign", f"{arguments.subject}/{protocol}"):
        write_foreign(context.config, context.layout, arguments.subject, protocol)


def _evaluate_experiment(context: Context, arguments: Arguments) -> None:
    from rtm.metrics.evaluate import write_metrics

    experiment = context.experiment(arguments.subject, arguments.seed)
    known = experiment.recipe.evaluation.protocols
    protocol = arguments.protocol or known[0]
    pick(dict.fromkeys(known), protocol, f"protocol of {experiment.name}")
    if context.served("evaluate", f"{experiment.name}/{protocol}/seed{arguments.seed}"):
        return
    with context.recorded("evaluate", f"{experiment.name}/{protocol}/seed{arguments.seed}"):
        write_metrics(context.config, context.layout, experiment, protocol, arguments.seed)


def _compare(context: Context, arguments: Arguments) -> None:
    """Measure one set of images against another."""
    from rtm.metrics.compare import compare
    from rtm.metrics.sets import find_reference, find_set

    config, layout = context.config, context.layout
    if arguments.json:
        _check_output(context, arguments.json)
    experiment = config.experiments.get(arguments.subject.partition(":")[0])
    name = arguments.protocol or (experiment.recipe.evaluation.protocols[0] if experiment else "paper")
    protocol = pick(config.params.protocols, name, "protocol")
    one = find_set(config, layout, arguments.subject, arguments.seed)
    other = find_reference(config, layout, arguments.other, one, protocol, arguments.seed)
    unseen = arguments.held_out and find_set(config, layout, arguments.held_out, arguments.seed)
    found = compare(config, layout, one, other, name, arguments.samples, arguments.seed, arguments.memorisation, unseen)
    found["provenance"]["environment"] = environment(["rtm.metrics.compare"])
    print("\n".join(lines_of(found)))
    if arguments.json:
        write_json(arguments.json, found)


def _check_output(context: Context, path: Path) -> None:
    """Check the output file before hours of work. Only the pipeline may write files that tables show."""
    if path.absolute() in {output.absolute() for job in jobs(context.config).values() for output in job.outputs}:
        raise UserError(f"{path} is a result of the pipeline, which only its own stages write; choose another file.")
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file in it for --json.")
    try:
        tempfile.TemporaryFile(dir=next(each for each in path.absolute().parents if each.exists())).close()
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}); choose another file for --json.") from None


def lines_of(found: Mapping[str, Any]) -> Iterator[str]:
    """The printed lines of a result, within 80 columns."""
    one, other = found["images"], found["reference"]
    whole = f"of its {one['found']:,} " if one["found"] > found["samples"] else ""
    title = f"{one['name']} ({found['samples']:,} {whole}images) against {other['name']} ({other['images']:,} images)"
    yield from textwrap.wrap(f"{title}, protocol {found['protocol']}", WIDTH)
    for kind, sentences in (("off protocol", found["off_protocol"]), ("note", found["notes"])):
        for each in sentences:
            yield from textwrap.wrap(f"{kind}: {each}", WIDTH)
    yield f"\n{'':<12} {'':>10}   95 % interval"
    for metric, (name, factor, decimals) in SHOWN.items():
        if metric in found["metrics"]:
            value = f"{found['metrics'][metric] * factor:.{decimals}f}"
            yield f"{name:<12} {value:>10}   {_beside(found, metric, factor, decimals)}".rstrip()
        elif metric in found.get("missing", {}):
            yield from textwrap.wrap(f"{name:<12} {'none':>10}   {found['missing'][metric]}", WIDTH, **INDENT)
    if says := found.get("memorisation", {}).get("says"):
        yield from textwrap.wrap(f"copies: {says}", WIDTH)


INDENT: dict[str, Any] = {"subsequent_indent": " " * 26, "drop_whitespace": True}


def _beside(found: Mapping[str, Any], metric: str, factor: float, decimals: int) -> str:
    if metric == "fid_floor":
        return "FID of {:,} against {:,} of the reference's own".format(*found["floor"])
    if metric not in found["intervals"]:
        return ""
    return " to ".join(f"{bound * factor:.{decimals}f}" for bound in found["intervals"][metric])


def features(arguments: Arguments) -> None:
    """Show the features that are kept of measured images, or remove them (--clear)."""
    from rtm.metrics.kept import uses

    folder = Context(arguments).layout.kept_features()
    kept = uses(folder)
    for each in kept:
        print(f"{each.images:>9,} images  {space(each.size):>7}  {each.network}")
    size = space(sum(each.size for each in kept))
    if arguments.clear and kept:
        shutil.rmtree(folder)
        print(f"{folder} is removed; {size} are free now")
    else:
        print(f"{size} in {folder}; `rtm features --clear` removes them" if kept else f"{folder} is empty")
