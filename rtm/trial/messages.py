"""The messages of `rtm try`: about the images, the expected time, and the places of the results."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from rtm.config import Config, Experiment
from rtm.lineage.receipts import Ledger
from rtm.lineage.recording import run_folder
from rtm.pipeline.amounts import counted
from rtm.pipeline.graph import jobs
from rtm.reports.cells import build
from rtm.reports.summary import seed_metrics
from rtm.reports.terminal import print_table
from rtm.trial.images import Kept, Survey, named
from rtm.trial.recipe import Choice

if TYPE_CHECKING:
    from torch import nn

SEED = 0


def remarks(found: Survey, kept: Kept, choice: Choice) -> Sequence[str]:
    """Sentences about pictures that are left out or changed."""
    broken = [*found.broken, *kept.broken]
    remarks = {
        f"Left out, since they cannot be read: {named(broken)}.": broken,
        f"Left out, since they are copies of other images: {kept.copies}.": kept.copies,
        f"Left out, since they are no images of a kind that is read here: {named(found.others)}.": found.others,
        f"{choice.images:,} of {len(found.pictures):,} images are used, spread evenly: more need a GPU.": len(
            found.pictures
        )
        > choice.machine.images,
        f"Most images have fewer than {choice.resolution} px; they are enlarged.": found.side < choice.resolution,
    }
    return [sentence for sentence, holds in remarks.items() if holds]


def announce(config: Config, choice: Choice, seconds: float, console: Console) -> None:
    from rtm.models.generator import build_generator

    mlp, rtm = (build_generator(each.architecture) for each in config.experiments.values())
    gpus, cores = choice.machine.gpus, choice.machine.cores
    place = counted(gpus, "GPU") if gpus else counted(cores, "CPU core")
    side, layout = choice.resolution, config.layout
    lines = {
        "images": f"{choice.images:,} at {side} x {side} px",
        "networks": f"decoder {_size(mlp.decoder)} parameters, MLP {_size(mlp.mapper)}, RTM {_size(rtm.mapper)}",
        "training": f"{choice.steps:,} steps of {choice.batch} images each, by RS-IMLE, on {place}",
        "time": f"about {_minutes(seconds)} of training, measured on this machine just now",
        "parameters": f"{layout.root}/params.yaml",
        "pictures so far": f"{layout.page()} (it refreshes itself)",
    }
    for title, text in lines.items():
        console.print(f"{title:<16} {text}")


def _minutes(seconds: float) -> str:
    return counted(max(1, round(seconds / 60)), "minute")


def _size(network: "nn.Module") -> str:
    return f"{sum(each.numel() for each in network.parameters()) / 1e6:.2f} M"


def conclude(config: Config, measured: bool, console: Console) -> None:
    layout = config.layout
    if measured:
        for name in config.tables:
            print_table(config, layout, build(config, layout, name), console)
        for name, (kid, error) in _distances(config).items():
            console.print(f"KID ×10³ of {name}: {1000 * kid:.1f} ± {1000 * error:.1f} (standard error)")
    console.print("pictures")
    for path in _pictures(config) if not measured else [layout.figure(name, ".png") for name in config.figures]:
        console.print(f"  {path}")
    console.print("all of it on one page, for a browser")
    console.print(f"  {layout.page()}")
    console.print("more pictures")
    for name in config.experiments:
        console.print(f"  rtm generate {layout.root}/{name}")


def _distances(config: Config) -> dict[str, tuple[float, float]]:
    """KID and its standard error for each training."""
    found = {}
    for experiment in config.experiments.values():
        file = seed_metrics(config.layout, experiment.name, experiment.recipe.evaluation.protocols[0], SEED)
        found[experiment.name] = file["metrics"]["native"]["kid"], file["metrics"]["native"]["kid_se"]
    return found


def _pictures(config: Config) -> list[Path]:
    """The last sample grid of each training."""
    ledger, graph = Ledger(), jobs(config)

    def last(experiment: Experiment) -> list[Path]:
        folder = run_folder(ledger, graph[f"train/{experiment.name}/seed{SEED}"])
        return sorted(folder.glob("grid_*.png"))[-1:]

    return [path for experiment in config.experiments.values() for path in last(experiment)]
