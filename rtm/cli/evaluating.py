"""`rtm evaluate`: metrics of an experiment, or of two sets of images."""

import tempfile
from argparse import ArgumentParser, Namespace
from pathlib import Path

from rtm.cli.anywhere import evaluate_anywhere
from rtm.cli.making import experiment_of
from rtm.cli.place import given_images, given_path
from rtm.config import Config, load
from rtm.config.loading import PARAMS
from rtm.config.parameters import pick
from rtm.config.variants import JOINT
from rtm.core.errors import UserError
from rtm.core.files import write_json
from rtm.lineage.environment import environment
from rtm.lineage.recording import run
from rtm.metrics.result import Result
from rtm.stages.evaluate import Evaluate
from rtm.stages.graph import check_seed, jobs
from rtm.stages.network import networks_of

USAGE = """\
rtm evaluate EXPERIMENT           the stage of the pipeline, writes results/
rtm evaluate A B                  any images against any others, for example
rtm evaluate samples/ cifar10     a folder, .npy or .npz against a dataset's training images
rtm evaluate digits_rtm:H8        a variant of an experiment's samples against its dataset
rtm evaluate cifar10:test cifar10 --samples 10000 --json known.json
rtm evaluate samples/ cifar10 --check   ask prdc, torch-fidelity and clean-fid too

A and B are datasets (NAME, NAME:test), experiments, folders, .npy or .npz files; ./NAME is always a path. Subfolders \
and links in a folder are followed. Numbers \
at another N than the protocol's, or against another reference, are marked `off protocol`; they fill no table."""


def add_options(parser: ArgumentParser) -> None:
    parser.epilog = USAGE
    parser.add_argument("subject", metavar="A", type=given_images, help="what to measure: see below")
    parser.add_argument("other", metavar="B", nargs="?", type=given_images, help="its reference (default: its dataset)")
    parser.add_argument("--protocol", help="in params/protocols.yaml (default: the experiment's first, or paper)")
    parser.add_argument("--samples", type=int, metavar="N", help="measure a random subset of N images, off protocol")
    parser.add_argument("--seed", type=int, default=0, help="of the experiment, and of a random subset (default 0)")
    parser.add_argument("--memorisation", action="store_true", help="look for copies of training images")
    parser.add_argument("--held-out", metavar="C", type=given_images, help="for --memorisation: images not trained on")
    text = "let prdc, torch-fidelity and clean-fid measure the same features; fail if a value differs"
    parser.add_argument("--check", action="store_true", help=text)
    parser.add_argument("--json", type=given_path, metavar="FILE", help="write the result with its provenance")


def evaluate(arguments: Namespace) -> None:
    """Measure an experiment's checkpoint, or any images against any others."""
    if arguments.held_out and not arguments.memorisation:
        raise UserError("--held-out needs --memorisation; add --memorisation, or leave it out.")
    if not Path(PARAMS).is_dir():
        evaluate_anywhere(arguments)
        return
    config = load(arguments.scale)
    name, colon, part = arguments.subject.partition(":")
    if JOINT in name and not Path(name).exists():
        config, name = experiment_of(arguments.scale, name)
    options = (arguments.other, arguments.samples, arguments.json, arguments.memorisation, arguments.check)
    if not colon and name in config.experiments and all(option in (None, False) for option in options):
        _evaluate_experiment(config, name, arguments)
    else:
        _compare(config, f"{name}{colon}{part}", arguments)


def _evaluate_experiment(config: Config, name: str, arguments: Namespace) -> None:
    known = config.experiment(name).recipe.evaluation.protocols
    protocol = arguments.protocol or known[0]
    pick(dict.fromkeys(known), protocol, f"protocol of {name}")
    check_seed(config, name, arguments.seed)
    job = Evaluate().job(config, experiment=name, protocol=protocol, seed=arguments.seed)
    run(job)
    print(job.first)


def _compare(config: Config, subject: str, arguments: Namespace) -> None:
    """Measure one set of images against another."""
    from rtm.cli.image_sets import find_reference, find_set, held_out_of, training_set
    from rtm.metrics.compare import compare

    if arguments.json:
        _check_output(config, arguments.json)
    experiment = config.experiments.get(subject.partition(":")[0])
    usual = experiment.recipe.evaluation.protocols[0] if experiment else "paper"
    name = arguments.protocol or usual
    protocol = pick(config.params.protocols, name, "protocol")
    seed = arguments.seed
    one = find_set(config, subject, seed)
    other = find_reference(config, arguments.other, one, protocol, seed)
    train = training_set(config, other) if arguments.memorisation else None
    held_out = None
    if arguments.held_out:
        held_out = find_set(config, arguments.held_out, seed)
    elif arguments.memorisation:
        held_out = held_out_of(config, other)
    samples = arguments.samples
    if samples is None and one.dataset is None:  # a folder or a file: all of it, as outside of the repository
        samples = len(one.images)
    weights = {str(job.names["network"]): job.first for job in networks_of(config, name)}
    features = config.kept_features
    content = compare(one, other, name, protocol, weights, features, samples, seed, train, held_out, arguments.check)
    content["provenance"]["environment"] = environment()
    result = Result(content)
    print(result)
    if arguments.json:
        write_json(arguments.json, result.as_dict())
    result.refuse_differences()


def _check_output(config: Config, path: Path) -> None:
    """Check the output file before hours of work. Only the pipeline may write files that tables show."""
    outputs = {output.absolute() for job in jobs(config).values() for output in job.outputs.values()}
    if path.absolute() in outputs:
        raise UserError(f"{path} is a result of the pipeline, which only its own stages write; choose another file.")
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file in it for --json.")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}); choose another file for --json.") from None
