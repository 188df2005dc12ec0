"""`rtm generate`: pictures from a checkpoint: an experiment's checkpoint, a file, or an address."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rtm.checkpoints.stored import SEED, stored
from rtm.cli.place import given_path, given_target
from rtm.config.classes import imported
from rtm.core.errors import UserError, printable

if TYPE_CHECKING:
    from torch import Tensor

    from rtm.checkpoints.sampler import Sampler
    from rtm.stages.base import Job

AT_ONCE = 256  # number of images that are drawn before they are written
MOST_ON_A_SHEET = 4096
NO_FOLDERS = (".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".pdf", ".npy", ".npz")
EPILOG = """\
  rtm generate demo/digits_rtm                  a sheet of 64 images
  rtm generate demo/digits_rtm/seed1 --count 9  of another seed of the training
  rtm generate w.safetensors --count 1000 --out images/
  rtm generate hf://owner/name/w.safetensors --class cat --truncation 0.7
  rtm generate w.safetensors --interpolate 12 --count 4 --out between.png

Image i of a seed is always the same one. A PNG file says in its metadata how it was drawn.
"""


def generate(arguments: argparse.Namespace) -> None:
    """Draw images from a checkpoint: an experiment's, a file, https://... or hf://owner/name/file."""
    word = arguments.checkpoint
    weights, name, job = _located(word, arguments.scale)
    if arguments.push or arguments.card:
        from rtm.cli.push import push

        push(arguments, job)
        return
    out = Path(arguments.out or f"generated/{'_'.join([name, *_suffixes(arguments)])}.png")
    on_one_sheet = out.suffix.lower() == ".png"
    _check_output(out, on_one_sheet, arguments)
    sampler = _sampler(weights if job is None else str(weights_of(job)), job, arguments.trust)
    about = {"checkpoint": sampler.info.get("experiment"), "run": sampler.info.get("run"), **_options(arguments)}
    if on_one_sheet:
        _write_sheet(out, sampler, arguments, about)
    else:
        _write_files(out, name, sampler, arguments, about)


def _located(word: str, scale: str) -> "tuple[str, str, Job | None]":
    """The weights, a name for their pictures, and their training, if they are no file or address."""
    if "://" in word or Path(word).is_file():
        return word, _file_name(word), None
    if word.endswith(".safetensors"):
        raise UserError(f"There is no file {printable(word)}; correct its path, or name an experiment.")
    try:
        job = training_of(word, scale)
    except ModuleNotFoundError:  # a light install knows only the weights that are here
        path = stored(word)
        if path is None:
            raise
        return str(path), _file_name(SEED.sub("", word).rpartition("/")[2]), None
    return str(job.first), _name(job), job


def _sampler(weights: str, job: "Job | None", trust: bool) -> "Sampler":
    """The generator of a file or address, which only its own description tells of; or of a training, whose receipt
    must be of these weights, and whose classes params/ may name."""
    from rtm.checkpoints.sampler import load

    if job is None:
        return load(weights, trust=trust)
    experiment = job.experiment
    own = (experiment.mapper.kind, getattr(experiment.decoder, "kind", None))
    classes = {kind: imported(kind) for kind in experiment.outside if kind in own}
    return load(weights, trust=trust, classes=classes)


def _file_name(word: str) -> str:
    """A name for the pictures of a file or address."""
    last = Path(word.split("?")[0]).with_suffix("").parts[-2:]
    return "_".join(map(_plain, last)).strip("_") or "checkpoint"


def _name(job: "Job") -> str:
    is_first = job.seed == job.experiment.seeds[0]
    return job.experiment.name if is_first else f"{job.experiment.name}_seed{job.seed}"


def _check_output(out: Path, on_one_sheet: bool, arguments: argparse.Namespace) -> None:
    if out.suffix.lower() in NO_FOLDERS:
        raise UserError(f"{out} cannot be written: pictures are PNG files; write --out {out.with_suffix('.png')}.")
    if not on_one_sheet and out.is_file():
        raise UserError(f"{out} is a file; give a folder with --out, or a name that ends with .png.")
    pictures = arguments.count * (arguments.interpolate or 1)
    if on_one_sheet and pictures > MOST_ON_A_SHEET:
        raise UserError(f"A sheet holds {MOST_ON_A_SHEET:,} images; give a folder with --out, as in --out images/.")


def _write_sheet(out: Path, sampler: "Sampler", arguments: argparse.Namespace, about: dict[str, Any]) -> None:
    from rtm.checkpoints.png import sheet, write_png

    _, images = next(_draw(sampler, arguments, arguments.count))
    images = images.flatten(0, 1)
    picture = images[0] if len(images) == 1 else sheet(images, arguments.interpolate)
    write_png(out, picture, about)
    print(out)


def _write_files(
    folder: Path, name: str, sampler: "Sampler", arguments: argparse.Namespace, about: dict[str, Any]
) -> None:
    """One file for each image or, with --interpolate, for each frame."""
    from rtm.checkpoints.png import write_png

    for first, images in _draw(sampler, arguments, AT_ONCE):
        for number, frames in enumerate(images, first):
            stem = f"{name}_{arguments.seed}_{number:06d}"
            facts = {**about, "image": number}
            for frame, image in enumerate(frames):
                path = folder / f"{stem}.png"
                if arguments.interpolate:
                    path = folder / f"{stem}_{frame:03d}.png"
                    facts["frame"] = frame
                write_png(path, image, facts)
                print(path)


def _draw(sampler: "Sampler", arguments: argparse.Namespace, at_once: int) -> Iterator[tuple[int, "Tensor"]]:
    """Yield (number of the first image, images (count, frames, R, R, 3)) in parts; one frame without --interpolate."""
    options = {name: value for name, value in _options(arguments).items() if name in ("H", "truncation", "label")}
    if arguments.count < 1 or arguments.first < 0:
        raise UserError("--count must be at least 1 and --first at least 0.")
    end = arguments.first + arguments.count
    for first in range(arguments.first, end, at_once):
        count = min(at_once, end - first)
        if arguments.interpolate is None:
            yield first, sampler(count, arguments.seed, first, **options)[:, None]
        else:
            yield first, sampler.interpolate(arguments.interpolate, count, arguments.seed, first, **options)


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that the user gave."""
    names = ("seed", "first", "count", "H", "truncation", "label", "interpolate")
    values = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _suffixes(arguments: argparse.Namespace) -> list[str]:
    """The options as parts of a sheet's file name, so that sheets with different options do not replace each other."""
    usual = {"seed": 0, "first": 0, "count": 64}
    suffixes = []
    for name, value in _options(arguments).items():
        if value != usual.get(name):
            word = "class" if name == "label" else name
            suffixes.append(_plain(f"{word}{value}"))
    return suffixes


def _plain(text: str) -> str:
    """The text without characters that mean something in a path."""
    return re.sub(r"[^\w.-]", "", text)


def training_of(word: str, scale: str) -> "Job":
    """The training of `name` or `scale/name`, both also with `/seed1`."""
    from rtm.cli.making import experiment_of
    from rtm.config.loading import load, trials
    from rtm.stages.graph import check_seed
    from rtm.stages.train import Train

    words = word.strip("/")
    if words in [*load().params.scales, *trials()]:
        some = next(iter(load(words).experiments))
        raise UserError(f"{words} is a scale; name one of its experiments, for example {words}/{some}.")
    *scales, name = re.sub(r"/seed\d+$", "", words).split("/")
    config, name = experiment_of("/".join(scales) or scale, name)
    number = re.search(r"/seed(\d+)$", words)
    seed = int(number[1]) if number else config.experiment(name).seeds[0]
    check_seed(config, name, seed)
    return Train().job(config, experiment=name, seed=seed)


def weights_of(job: "Job") -> Path:
    """The weights of a training, as its receipt records them: where they were written, or in a store of DVC here."""
    from rtm.cli.recorded import receipt_of

    if job.first.is_file():
        receipt_of(job, job.first)
        return job.first
    path = stored(f"{job.root}{job.name}")
    if path is None:
        name = job.experiment.name
        raise UserError(
            f"{job.first} is missing; train it with `rtm train {name} --seed {job.seed}{job.config.option}`, or "
            f"`dvc pull {job.first}`."
        )
    return path


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    text = "an experiment (demo/digits_rtm), a file, https://... or hf://owner/name/file"
    parser.add_argument("checkpoint", type=given_target, help=text)
    parser.add_argument("--count", type=int, default=64, help="number of images (default 64)")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (default 0)")
    parser.add_argument("--first", type=int, default=0, help="number of the first image (default 0)")
    parser.add_argument("--H", type=int, help="steps of a recursive mapper (default: as trained)")
    parser.add_argument("--truncation", type=float, help="1 is as trained, 0 the mean image, between them less variety")
    parser.add_argument("--class", dest="label", help="number or name of a class, of a conditional generator")
    parser.add_argument("--interpolate", type=int, metavar="N", help="N frames from each image to the next")
    parser.add_argument("--out", type=given_path, help="NAME.png for a sheet, or a folder (default generated/NAME.png)")
    parser.add_argument("--push", metavar="OWNER/NAME", help="draw nothing; publish it on the Hugging Face Hub")
    parser.add_argument("--private", action="store_true", help="for --push: create it as a private repository")
    parser.add_argument("--card", type=given_path, metavar="FOLDER", help="for --push: only write file and card there")
    parser.add_argument("--trust", action="store_true", help="import classes from outside of rtm that the file names")


def install(extra: str) -> str:
    return f"run `pip install -e '.[{extra}]'` in a clone of the repository"
