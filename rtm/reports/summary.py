"""results/<experiment>/metrics.json: mean and standard deviation over the seeds, for tables and `dvc metrics`.

sweep.csv beside it holds the same numbers for each H, for `dvc plots`.
"""

import csv
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from rtm.config import Config, Experiment
from rtm.config.base import Finite
from rtm.core.errors import UserError
from rtm.core.files import atomic, make_command, read_json, write_json
from rtm.core.layout import Layout

Summary = dict[str, Any]  # section: {metric: number}; "seeds": number of seeds
Metrics = dict[str, Finite]
COSTS = ("time_ms", "mapper_parameters", "generator_parameters")
SPLITS = {"is_std": "is_splits_std"}  # the spread over splits; in a summary `is_std` is the spread over seeds
NO_SPREAD = {*SPLITS, "kid_se", "fid_floor"}  # their spread over seeds says nothing
Intervals = dict[str, tuple[Finite, Finite]]  # 95 %, by the metric's name


class Measured(TypedDict):
    """The part of a metrics file that reports read."""

    experiment: str
    protocol: str
    seed: int
    samples: Annotated[int, Field(gt=0)]
    metrics: dict[str, Metrics]  # by variant
    intervals: NotRequired[dict[str, Intervals]]  # by variant


class Foreign(TypedDict):
    """The same for images that others generated."""

    samples: Annotated[int, Field(gt=0)]
    metrics: Metrics
    intervals: NotRequired[Intervals]
    off_protocol: NotRequired[list[str]]  # only in files of `rtm evaluate A B`, which no table shows


class Latency(TypedDict):
    experiment: str
    batch: Annotated[int, Field(gt=0)]
    device: str
    time_ms: Finite
    sweep: Metrics
    mapper_parameters: Finite
    generator_parameters: NotRequired[Finite]


def section_name(kind: str, variant: str) -> str:
    return kind if variant == "native" else f"{kind}_{variant}"


def summarise(config: Config, layout: Layout, name: str) -> Summary:
    """The sections "<protocol>", "<protocol>_H8", "latency", "latency_H8".

    `_std` is the spread over several seeds (ddof = 1); `_sampling` is half the 95 % interval of one seed, on average.
    """
    experiment = config.experiment(name)
    summary: Summary = {"seeds": len(experiment.seeds)}
    for protocol in experiment.recipe.evaluation.protocols:
        files = [seed_metrics(layout, name, protocol, seed) for seed in experiment.seeds]
        for variant in experiment.variants:
            path = layout.metrics(name, protocol, experiment.seeds[0])
            if any(variant not in file["metrics"] for file in files):
                again = make_command(path, "-f", gpus=experiment.recipe.resources.gpus > 0)
                raise UserError(f"{path} or another seed lacks {variant}; make it again with `{again}`.")
            section = _over_seeds([file["metrics"][variant] for file in files], path)
            half = [half_widths(file.get("intervals", {}).get(variant, {})) for file in files]
            shared = [metric for metric in half[0] if all(metric in each for each in half)]
            section |= {f"{metric}_sampling": fmean(each[metric] for each in half) for metric in shared}
            summary[section_name(protocol, variant)] = section
    return summary | _latency(layout, name)


def write_summary(config: Config, layout: Layout, name: str) -> Path:
    path, summary = layout.summary(name), summarise(config, layout, name)
    with atomic(layout.sweep(name), "w") as file:
        csv.writer(file, lineterminator="\n").writerows(_sweep(config.experiment(name), summary))
    write_json(path, summary)
    return path


def _sweep(experiment: Experiment, summary: Summary) -> list[list[Any]]:
    """The header "H" and "<protocol>.<metric>", then a row for each H of the sweep; halting has no H."""
    protocols = experiment.recipe.evaluation.protocols
    head = ["H", *(f"{protocol}.{metric}" for protocol in protocols for metric in summary[protocol])]
    fixed = [H for H in experiment.sweep if isinstance(H, int)]
    sections = {H: [summary[f"{protocol}_H{H}"] for protocol in protocols] for H in fixed}
    return [head, *([H, *(value for part in parts for value in part.values())] for H, parts in sections.items())]


def half_widths(intervals: Intervals) -> dict[str, float]:
    return {metric: (high - low) / 2 for metric, (low, high) in intervals.items()}


def seed_metrics(layout: Layout, name: str, protocol: str, seed: int) -> Measured:
    path = layout.metrics(name, protocol, seed)
    file: Measured = read_json(path, Measured)
    found = {"experiment": file["experiment"], "protocol": file["protocol"], "seed": file["seed"]}
    for key, expected in (("experiment", name), ("protocol", protocol), ("seed", seed)):
        if found[key] != expected:
            raise UserError(f"{path} is of {key} {found[key]!r}, not {expected!r}; delete it and make it again.")
    return file


def _over_seeds(runs: list[Metrics], path: Path) -> dict[str, float]:
    if any(run.keys() != runs[0].keys() for run in runs):
        raise UserError(f"The seeds beside {path} hold different metrics; make them again with the same networks.")
    summary: dict[str, float] = {}
    for metric in runs[0]:
        values = [run[metric] for run in runs]
        summary[SPLITS.get(metric, metric)] = fmean(values)
        if len(values) > 1 and metric not in NO_SPREAD:
            summary[f"{metric}_std"] = stdev(values)
    return summary


def _latency(layout: Layout, name: str) -> Summary:
    file: Latency = read_json(layout.latency(name), Latency)
    sections: Summary = {"latency": {key: value for key, value in file.items() if key in COSTS}}
    for variant, time_ms in file["sweep"].items():
        sections[section_name("latency", variant)] = {"time_ms": time_ms}
    return sections
