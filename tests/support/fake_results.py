"""Invented results on disk, in the format of the evaluation."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rtm.config import Config
from rtm.config.experiments import Recursive
from rtm.config.reports import SHARES
from rtm.core.files import write_json, write_text
from rtm.core.layout import Layout
from rtm.lineage.job import Job
from rtm.lineage.store import kept
from rtm.reports.summary import write_summary

Sections = Mapping[str, Mapping[str, float]]


def write_results(config: Config, layout: Layout, name: str, sections: Sections, spread: float = 0.0) -> None:
    """Write results. `sections` are as in a summary; all other metrics are 0.5. `spread` makes the seeds differ."""
    experiment = config.experiment(name)
    offsets = np.linspace(-spread, spread, len(experiment.seeds)) if len(experiment.seeds) > 1 else [0.0]
    default = dict.fromkeys(("fid", "fid_floor", "is", "is_std", *SHARES, "density"), 0.5)
    default |= {"kid": 0.005, "kid_se": 0.0001}
    recursive = isinstance(experiment.mapper, Recursive)
    if recursive:
        moved = ("z_change", "z_tail", "w_change", "flips", "feature_change")
        default |= dict.fromkeys(("steps", *moved, "rounding", "rounding_tail", "hardness"), 0.5)
    curve = {share: [0.5 / step for step in range(1, 16)] for share in ("p10", "median", "p90", "p99")}
    refinement = {"refinement": {"z": curve, "w": curve}} if recursive else {}
    for protocol in experiment.recipe.evaluation.protocols:
        for seed, offset in zip(experiment.seeds, offsets, strict=True):
            metrics, intervals = {}, {}
            for variant in experiment.variants:
                section = protocol if variant == "native" else f"{protocol}_{variant}"
                given = default | dict(sections.get(section, {}))
                metrics[variant] = {metric: value * (1 + float(offset)) for metric, value in given.items()}
                seen = {metric: metrics[variant][metric] for metric in ("fid", "kid", "is", *SHARES, "density")}
                intervals[variant] = {metric: (0.9 * value, 1.1 * value) for metric, value in seen.items()}
            file: dict[str, object] = {"experiment": name, "protocol": protocol, "seed": seed, "samples": 10}
            file |= {"floor": (5, 6), "metrics": metrics, "intervals": intervals}
            file |= refinement | {"provenance": {"checkpoint": f"{name}-{seed}"}}
            write_json(layout.metrics(name, protocol, seed), file)
    swept = experiment.variants[1:]
    sweep = {variant: sections.get(f"latency_{variant}", {}).get("time_ms", 1.0) for variant in swept}
    latency = {"time_ms": 1.0, "mapper_parameters": 1000.0} | dict(sections.get("latency", {}))
    write_json(layout.latency(name), {"experiment": name, "batch": 1, "device": "cpu", "sweep": sweep, **latency})
    write_summary(config, layout, name)


def write_gallery(config: Config, layout: Layout, name: str, samples: int = 80) -> None:
    """Write pictures that show their place: the brightness is the index, the colour the experiment."""
    experiment = config.experiment(name)
    resolution = experiment.dataset.resolution
    ramp = np.linspace(0, 1, resolution)
    shade = ramp[:, None, None] * ramp[None, :, None] * np.array([1.0, 0.6, 0.3])

    def pictures(*shape: int) -> NDArray[np.uint8]:
        level = np.linspace(0.2, 1, int(np.prod(shape))).reshape(*shape, 1, 1, 1)
        picture: NDArray[np.uint8] = np.round(255 * (0.7 * level * shade + 0.3 * ("rtm" in name))).astype(np.uint8)
        return picture

    path = layout.gallery(name, experiment.seeds[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    queries = np.round(255 * np.broadcast_to(shade, (16, *shade.shape))).astype(np.uint8)
    np.savez(path, samples=pictures(samples), slerp=pictures(6, 15), queries=queries, neighbours=pictures(16, 8))


def write_curves(config: Config, layout: Layout, name: str, rows: int = 100) -> None:
    for seed in config.experiment(name).seeds:
        step = np.arange(1, rows + 1)
        rejected = [f"{0.5 / (1 + number):.4f}" if number % 10 == 0 else "" for number in step]
        fids = [f"{100 / number:.4f},0.7,0.6" if number % 25 == 0 else ",," for number in step]
        losses = [f"{s},{s * 0.3},{2 / s**0.5 + 0.01 * seed},0.002,{s // 10}" for s in step]
        lines = [",".join(row) for row in zip(losses, rejected, fids, strict=True)]
        header = "step,seconds,loss,lr,rounds,rejected,fid,precision,recall"
        write_text(layout.curve(name, seed), "\n".join([header, *lines]) + "\n")


def write_outputs(job: Job) -> None:
    """The files of a job, signed for and kept."""
    with kept(job):
        for path in job.outputs:
            write_text(path, f"{job.id} {path.suffix}")
