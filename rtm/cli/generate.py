"""`rtm generate`: pictures from a checkpoint: an experiment's checkpoint, a file, or an address."""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rtm.cli.place import given_path, given_target
from rtm.cli.usage import Help
from rtm.config.classes import imported
from rtm.core.errors import UserError, printable

if TYPE_CHECKING:
    from torch import Tensor

    from rtm.checkpoints.sampler import Sampler
    from rtm.cli.context import Context
    from rtm.config import Experiment

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
    from rtm.checkpoints.pictures import sheet, write_png
    from rtm.checkpoints.sampler import load

    name, source, classes = _located(arguments.checkpoint, arguments.scale)
    out = Path(arguments.out or f"generated/{'_'.join([name, *_variant(arguments)])}.png")
    single = out.suffix.lower() == ".png"
    if out.suffix.lower() in NO_FOLDERS:
        raise UserError(f"{out} cannot be written: pictures are PNG files; write --out {out.with_suffix('.png')}.")
    if single and arguments.count * (arguments.interpolate or 1) > MOST_ON_A_SHEET:
        raise UserError(f"A sheet holds {MOST_ON_A_SHEET:,} images; give a folder with --out, as in --out images/.")
    if not single and out.is_file():
        raise UserError(f"{out} is a file; give a folder with --out, or a name that ends with .png.")
    sampler = load(source, trust=arguments.trust, classes=classes)
    about = {"checkpoint": sampler.info.get("experiment"), "run": sampler.info.get("run"), **_chosen(arguments)}
    if single:
        drawn = next(_drawn(sampler, arguments, arguments.count))[1].flatten(0, 1)
        write_png(out, drawn[0] if len(drawn) == 1 else sheet(drawn, arguments.interpolate), about)
        print(out)
        return
    for first, images in _drawn(sampler, arguments, AT_ONCE):
        for place, frames in enumerate(images, first):
            for frame, image in enumerate(frames):
                suffix = f"_{frame:03d}" if arguments.interpolate else ""
                path = out / f"{name}_{arguments.seed}_{place:06d}{suffix}.png"
                write_png(path, image, {**about, "image": place, **({"frame": frame} if suffix else {})})
                print(path)


def _drawn(sampler: "Sampler", arguments: argparse.Namespace, at_once: int) -> Iterator[tuple[int, "Tensor"]]:
    """Yield (number of the first image, images (count, frames, R, R, 3)) in parts; one frame without --interpolate."""
    options = {name: value for name, value in _chosen(arguments).items() if name in ("H", "truncation", "label")}
    if arguments.count < 1 or arguments.first < 0:
        raise UserError("--count must be at least 1 and --first at least 0.")
    end = arguments.first + arguments.count
    for first in range(arguments.first, end, at_once):
        count = min(at_once, end - first)
        if arguments.interpolate is None:
            yield first, sampler(count, arguments.seed, first, **options)[:, None]
        else:
            yield first, sampler.interpolate(arguments.interpolate, count, arguments.seed, first, **options)


def _chosen(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that the user gave."""
    names = ("seed", "first", "count", "H", "truncation", "label", "interpolate")
    return {name: value for name in names if (value := getattr(arguments, name)) is not None}


def _variant(arguments: argparse.Namespace) -> list[str]:
    """The options as parts of a sheet's file name, so that sheets with different options do not replace each other."""
    usual = {"seed": 0, "first": 0, "count": 64}
    given = {name: value for name, value in _chosen(arguments).items() if value != usual.get(name)}
    return [re.sub(r"[^\w.-]", "", f"{'class' if name == 'label' else name}{value}") for name, value in given.items()]


def _located(checkpoint: str, scale: str) -> tuple[str, str, dict[str, Any]]:
    """A name for the written files, the checkpoint's file or address, and the user's classes that params/ names."""
    if "://" in checkpoint or Path(checkpoint).is_file():
        parts = Path(checkpoint.split("?")[0]).with_suffix("").parts[-2:]
        return "_".join(re.sub(r"[^\w.-]", "", part) for part in parts).strip("_") or "checkpoint", checkpoint, {}
    if checkpoint.endswith(".safetensors"):
        raise UserError(f"There is no file {printable(checkpoint)}; correct its path, or name an experiment.")
    context, experiment, seed = of_experiment(checkpoint, scale)
    name, path = experiment.name, context.layout.checkpoint(experiment.name, seed)
    own = (experiment.mapper.kind, getattr(experiment.decoder, "kind", None))
    classes = {kind: imported(kind) for kind in experiment.outside if kind in own}
    return name if seed == experiment.seeds[0] else f"{name}_seed{seed}", str(path), classes


def of_experiment(given: str, scale: str) -> "tuple[Context, Experiment, int]":
    """The experiment and the seed of `name` or `scale/name`, both also with `/seed1`; an error if it is not trained."""
    from rtm.cli.context import Context
    from rtm.config.loading import load, trials

    if given.strip("/") in [*load().params.scales, *trials()]:
        some = next(iter(load(given.strip("/")).experiments))
        raise UserError(f"{given} is a scale; name one of its experiments, for example {given.strip('/')}/{some}.")
    *scales, name = re.sub(r"/seed\d+$", "", given.strip("/")).split("/")
    context = Context(argparse.Namespace(scale="/".join(scales) or scale))
    experiment = context.experiment(name)
    seed = int(found[1]) if (found := re.search(r"/seed(\d+)$", given)) else experiment.seeds[0]
    name = context.experiment(name, seed).name
    path = context.layout.checkpoint(name, seed)
    if not path.is_file():
        option = "" if context.config.scale_name == "paper" else f" --scale {context.config.scale_name}"
        raise UserError(
            f"{path} is missing; train it with `rtm train {name} --seed {seed}{option}`, or `dvc pull {path}`."
        )
    return context, experiment, seed


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
    parser.add_argument("--trust", action="store_true", help="import classes from outside of rtm that the file names")


def alone(missing: str) -> None:
    """The command line of a light install: `rtm generate` works; every other verb names the missing package."""
    parser = argparse.ArgumentParser(prog="rtm generate", description=generate.__doc__, formatter_class=Help)
    add_options(parser)
    if sys.argv[1:2] != ["generate"]:
        sys.exit(f"rtm: {missing} is not installed; {install('pipeline')} for all verbs but `rtm generate`.")
    arguments = parser.parse_args(sys.argv[2:])
    try:
        generate(argparse.Namespace(scale="paper", **vars(arguments)))
    except UserError as error:
        sys.exit(f"rtm: {error}")


def install(extra: str) -> str:
    return f"run `pip install -e '.[{extra}]'` in a clone of the repository"
