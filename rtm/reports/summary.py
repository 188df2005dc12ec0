"""Results of an experiment: its metrics files, and their mean and standard deviation over the seeds.

results/<experiment>/metrics.json keeps the summary for `dvc metrics`; sweep.csv has the same numbers for each H, for
`dvc plots`. Tables compute the summary themselves from the metrics files.
"""

import csv
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from rtm.config import Config, Experiment
from rtm.config.base import Finite
from rtm.config.catalogue import METRICS, is_cost
from rtm.config.reports import CellSpec
from rtm.core.errors import UserError
from rtm.core.files import atomic, write_json
from rtm.core.readers import read_json
from rtm.reports.commands import making
from rtm.stages.base import Job
from rtm.stages.evaluate import Evaluate
from rtm.stages.latency import Latency
from rtm.stages.summary import Summary as SummaryStage

Section = dict[str, float]
Summary = dict[str, Any]  # section: {metric: number}; "seeds": number of seeds
Intervals = dict[str, tuple[Finite, Finite]]  # 95 %, by the metric's name
Numbers = dict[str, Finite]
Samples = Annotated[int, Field(gt=0)]


class Measured(TypedDict):
    """The part of a metrics file that reports read."""

    experiment: str
    protocol: str
    seed: int
    samples: Samples
    metrics: dict[str, Numbers]  # by variant
    intervals: NotRequired[dict[str, Intervals]]  # by variant


class Evaluated(TypedDict):
    """The same of a file of `rtm evaluate A B --json FILE`."""

    protocol: str
    samples: Samples
    metrics: Numbers
    intervals: NotRequired[Intervals]
    off_protocol: list[str]


class LatencyRecord(TypedDict):
    experiment: str
    batch: Annotated[int, Field(gt=0)]
    device: str
    time_ms: Finite
    sweep: Numbers
    mapper_parameters: Finite
    generator_parameters: NotRequired[Finite]
    quartiles_ms: NotRequired[dict[str, tuple[Finite, Finite]]]  # by variant
    load: NotRequired[Finite]  # of the measuring machine, for each core
    disturbed: NotRequired[bool]  # by other work on the machine


def measuring_jobs(config: Config, part: CellSpec) -> list[Job]:
    """The jobs that measure a cell of an experiment: one for each seed, or the one that times it."""
    experiment = config.experiment(str(part.experiment))
    if is_cost(part.metric):
        return [Latency().job(config, experiment=experiment.name)]
    return evaluations(config, experiment.name, str(part.protocol))


def evaluations(config: Config, name: str, protocol: str) -> list[Job]:
    seeds = config.experiment(name).seeds
    return [Evaluate().job(config, experiment=name, protocol=protocol, seed=seed) for seed in seeds]


def sources(config: Config, part: CellSpec) -> list[Path]:
    """The files behind a measured cell."""
    if part.experiment is None:
        return [Path(str(part.measured))]
    return [job.first for job in measuring_jobs(config, part)]


def unmeasured(config: Config, name: str) -> list[Job]:
    """The jobs whose files an experiment's summary lacks."""
    jobs = SummaryStage().job(config, experiment=name).inputs
    return [job for job in jobs if not job.first.exists()]


def read_summary(config: Config, name: str) -> Summary | None:
    """The summary of an experiment; None if not all of it is measured."""
    return None if unmeasured(config, name) else summarise(config, name)


def summarise(config: Config, name: str) -> Summary:
    """The sections "<protocol>", "<protocol>_H8", "latency", "latency_H8".

    `_std` is the spread over several seeds (ddof = 1); `_sampling` is half the 95 % interval of one seed, on average.
    """
    experiment = config.experiment(name)
    summary: Summary = {"seeds": len(experiment.seeds)}
    for protocol in experiment.recipe.evaluation.protocols:
        jobs = evaluations(config, name, protocol)
        files = [seed_metrics(job) for job in jobs]
        for variant in experiment.variants:
            summary[section_name(protocol, variant)] = _section(files, variant, jobs[0])
    return summary | _latency(Latency().job(config, experiment=name))


def write_summary(config: Config, name: str) -> Path:
    outputs = SummaryStage().job(config, experiment=name).outputs
    summary = summarise(config, name)
    with atomic(outputs["sweep"], "w") as file:
        csv.writer(file, lineterminator="\n").writerows(_sweep(config.experiment(name), summary))
    write_json(outputs["metrics"], summary)
    return outputs["metrics"]


def section_name(kind: str, variant: str) -> str:
    return kind if variant == "native" else f"{kind}_{variant}"


def seed_metrics(job: Job) -> Measured:
    """The metrics file of a seed."""
    file: Measured = read_json(job.first, Measured)
    written = {"experiment": file["experiment"], "protocol": file["protocol"], "seed": str(file["seed"])}
    for key, expected in job.names.items():
        if written[key] != expected:
            raise UserError(f"{job.first} is of {key} {written[key]}, not {expected}; delete it and make it again.")
    return file


def evaluating(part: CellSpec) -> str:
    """The command that makes the file of a cell that is measured on others' images."""
    return f"rtm evaluate IMAGES DATASET --protocol {part.protocol} --json {part.measured}"


def read_evaluated(part: CellSpec) -> Section | None:
    """The metrics of images that others generated; None if they are not measured yet."""
    path = Path(str(part.measured))
    if not path.exists():
        return None
    remedy = f"make it again with `{evaluating(part)}`"
    file: Evaluated = read_json(path, Evaluated, remedy)
    reasons = "; ".join(file["off_protocol"])
    if reasons:
        raise UserError(f"{path} is off protocol ({reasons}) and fills no table; {remedy}.")
    if file["protocol"] != part.protocol:
        raise UserError(f"{path} is of protocol {file['protocol']!r}, not {part.protocol!r}; {remedy}.")
    return file["metrics"] | _sampling([file.get("intervals", {})])


def _sweep(experiment: Experiment, summary: Summary) -> list[list[Any]]:
    """The header "H" and "<protocol>.<metric>", then a row for each H of the sweep; halting has no H."""
    protocols = experiment.recipe.evaluation.protocols
    head = [f"{protocol}.{metric}" for protocol in protocols for metric in summary[protocol]]
    rows: list[list[Any]] = [["H", *head]]
    for H in experiment.sweep:
        if isinstance(H, int):
            row: list[Any] = [H]
            for protocol in protocols:
                row += summary[f"{protocol}_H{H}"].values()
            rows.append(row)
    return rows


def _section(files: list[Measured], variant: str, first: Job) -> Section:
    """The means and spreads of a variant over the seeds."""
    if any(variant not in file["metrics"] for file in files):
        again = making(first, None, "-f")
        raise UserError(f"{first.first} or another seed lacks {variant}; make it again with `{again}`.")
    runs = [file["metrics"][variant] for file in files]
    if any(run.keys() != runs[0].keys() for run in runs):
        raise UserError(
            f"The seeds beside {first.first} hold different metrics; make them again with the same networks."
        )
    section: Section = {}
    for name in runs[0]:
        values = [run[name] for run in runs]
        metric = METRICS.get(name)
        in_summary = metric.in_summary if metric else ""
        section[in_summary or name] = fmean(values)
        if len(values) > 1 and (metric is None or metric.spread):
            section[f"{name}_std"] = stdev(values)
    return section | _sampling([file.get("intervals", {}).get(variant, {}) for file in files])


def _sampling(intervals: list[Intervals]) -> Section:
    """Half the width of the intervals that all seeds have, on average."""
    section: Section = {}
    for metric in intervals[0]:
        ends = [of_seed[metric] for of_seed in intervals if metric in of_seed]
        if len(ends) == len(intervals):
            section[f"{metric}_sampling"] = fmean((high - low) / 2 for low, high in ends)
    return section


def _latency(job: Job) -> Summary:
    file: LatencyRecord = read_json(job.first, LatencyRecord)
    costs = {key: value for key, value in file.items() if key in METRICS and is_cost(key)}
    summary: Summary = {"latency": costs}
    for variant, time_ms in file["sweep"].items():
        summary[section_name("latency", variant)] = {"time_ms": time_ms}
    return summary
