"""`rtm try FOLDER`: train MLP and RTM side by side on any images, up to pictures and numbers."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from rich.console import Console

from rtm.cli.place import given_path
from rtm.config import load
from rtm.core.errors import UserError
from rtm.lineage.freshness import Freshness
from rtm.lineage.recording import run as run_job
from rtm.stages.network import Network
from rtm.trial.recipe import RESOLUTIONS


def try_folder(arguments: Namespace) -> None:
    """Train MLP and RTM side by side on a folder of images; the same command resumes."""
    from rtm.trial import beginning, recipe
    from rtm.trial.run import reports, run

    if arguments.export:
        from rtm.trial.export import export

        print(export(arguments.export))
        return
    if arguments.source is None:
        raise UserError("Name a folder of images: rtm try FOLDER.")
    load()  # report mistakes in params/ before anything is written
    name = _name(arguments)
    options = {option: getattr(arguments, option) for option in ("minutes", "epochs", "resolution")}
    console = Console(highlight=False, markup=False, soft_wrap=True)
    with beginning.alone(name):
        if beginning.is_begun(name, arguments.source):
            beginning.go_on(name, arguments.source, options, console)
        else:
            beginning.refuse_lengths(options)
            _fetch("vgg16")
            beginning.begin(name, arguments.source, options, console)
        config = load(str(recipe.folder_of(name)))
        if arguments.prepare:
            console.print(f"Prepared; on a cluster: snakemake --profile slurm {' '.join(reports(config))}")
            return
        measured = not arguments.pictures and _can_measure(console)
        run(config, measured, console)


def _name(arguments: Namespace) -> str:
    from rtm.trial import beginning

    name: str = arguments.name or beginning.name_of(arguments.source)
    possible = beginning.name_of(Path(name))
    if possible != name:
        raise UserError(f"{name!r} cannot name a trial; write small letters, digits and _, as in {possible}.")
    return name


def _can_measure(console: Console) -> bool:
    try:
        _fetch("inception")
    except UserError as error:
        console.print(f"Without numbers, only pictures: {error}")
        return False
    return True


def _fetch(network: str) -> None:
    """Fetch the weights of a frozen network if they are missing."""
    job = Network().job(load(), network=network)
    if not Freshness().is_fresh(job):
        run_job(job)


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "source",
        nargs="?",
        type=given_path,
        metavar="FOLDER",
        help="images, also in subfolders and behind links, or a zip or tar of them",
    )
    parser.add_argument("--name", help="of the trial (default: the folder's)")
    parser.add_argument("--minutes", type=float, help="of training (default: 10, with a GPU 60)")
    parser.add_argument("--epochs", type=int, help="of each training, instead of --minutes")
    parser.add_argument("--resolution", type=int, choices=RESOLUTIONS, help="in pixels (default: by the machine)")
    parser.add_argument("--pictures", action="store_true", help="make pictures and measure nothing")
    parser.add_argument("--prepare", action="store_true", help="write images and parameters, to train elsewhere")
    parser.add_argument("--export", metavar="NAME", help="write a trial into params/ instead")
