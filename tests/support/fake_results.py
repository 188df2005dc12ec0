"""Invented results on disk, in the format of the evaluation."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rtm.config import Config, Experiment
from rtm.config.catalogue import METRICS
from rtm.config.experiments import Recursive
from rtm.core.files import digest, write_json, write_text
from rtm.lineage import cache
from rtm.lineage.receipts import fingerprint_of
from rtm.lineage.recording import recorded
from rtm.reports.summary import section_name, write_summary
from rtm.stages.base import Job
from rtm.stages.evaluate import Evaluate
from rtm.stages.gallery import Gallery
from rtm.stages.latency import Latency
from rtm.stages.train import Train

Sections = Mapping[str, Mapping[str, float]]
METRIC_NAMES = [name for name, row in METRICS.items() if row.section == "protocol"]
RECURSIVE = METRIC_NAMES[METRIC_NAMES.index("steps") :]  # the last rows are of recursive mappers
PLAIN = {name: 0.5 for name in METRIC_NAMES if name not in RECURSIVE}
PLAIN |= {"kid": 0.005, "kid_se": 0.0001}
WITH_INTERVALS = [name for name in PLAIN if name not in ("fid_floor", "kid_se", "is_std")]


def write_results(config: Config, name: str, sections: Sections, spread: float = 0.0) -> None:
    """Write results. `sections` are as in a summary; all other metrics are 0.5. `spread` makes the seeds differ."""
    experiment = config.experiment(name)
    last = max(1, len(experiment.seeds) - 1)
    for protocol in experiment.recipe.evaluation.protocols:
        for place, seed in enumerate(experiment.seeds):
            job = Evaluate().job(config, experiment=name, protocol=protocol, seed=seed)
            factor = 1 + spread * (2 * place / last - 1) if len(experiment.seeds) > 1 else 1.0
            write_json(job.first, _metrics(job, seed, sections, factor))
    write_json(Latency().path(config, "cost", experiment=name), _cost(experiment, sections))
    write_summary(config, name)


def _metrics(job: Job, seed: int, sections: Sections, factor: float) -> dict[str, object]:
    """The file of a seed; all its numbers are multiplied by the factor."""
    experiment = job.experiment
    protocol = job.names["protocol"]
    recursive = isinstance(experiment.mapper, Recursive)
    default = PLAIN | dict.fromkeys(RECURSIVE, 0.5) if recursive else PLAIN
    metrics = {}
    intervals = {}
    for variant in experiment.variants:
        values = default | dict(sections.get(section_name(protocol, variant), {}))
        metrics[variant] = {metric: value * factor for metric, value in values.items()}
        intervals[variant] = {metric: _around(metrics[variant][metric]) for metric in WITH_INTERVALS}
    changes = [0.5 / step for step in range(1, 16)]
    curve = dict.fromkeys(("p10", "median", "p90", "p99"), changes)
    return {
        "experiment": experiment.name,
        "protocol": protocol,
        "seed": seed,
        "samples": 10,
        "floor": (5, 6),
        "metrics": metrics,
        "intervals": intervals,
        "provenance": {"checkpoint": f"{experiment.name}-{seed}"},
        **({"refinement": {"z": curve, "w": curve}} if recursive else {}),
    }


def _around(value: float) -> tuple[float, float]:
    return 0.9 * value, 1.1 * value


def _cost(experiment: Experiment, sections: Sections) -> dict[str, object]:
    sweep = {}
    for variant in experiment.variants[1:]:
        sweep[variant] = sections.get(f"latency_{variant}", {}).get("time_ms", 1.0)
    return {
        "experiment": experiment.name,
        "batch": 1,
        "device": "cpu",
        "sweep": sweep,
        "time_ms": 1.0,
        "mapper_parameters": 1000.0,
        **sections.get("latency", {}),
    }


def write_gallery(config: Config, name: str, samples: int = 80) -> None:
    """Write pictures that show their place: the brightness is the index, the colour the experiment."""
    experiment = config.experiment(name)
    ramp = np.linspace(0, 1, experiment.dataset.resolution)
    shade = np.multiply.outer(ramp[:, None] * ramp, [1.0, 0.6, 0.3])
    light = 0.3 if "rtm" in name else 0.0

    def pictures(*shape: int) -> NDArray[np.uint8]:
        levels = np.linspace(0.2, 1, int(np.prod(shape))).reshape(shape)
        return _bytes(0.7 * np.multiply.outer(levels, shade) + light)

    path = Gallery().path(config, "images", experiment=name, seed=experiment.seeds[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    queries = _bytes(np.stack([shade] * 16))
    np.savez(path, samples=pictures(samples), slerp=pictures(6, 15), queries=queries, neighbours=pictures(16, 8))


def _bytes(shares: NDArray[np.float64]) -> NDArray[np.uint8]:
    return np.round(255 * shares).astype(np.uint8)


def write_curves(config: Config, name: str, rows: int = 100) -> None:
    for seed in config.experiment(name).seeds:
        lines = ["step,seconds,loss,lr,rounds,rejected,fid,precision,recall"]
        for step in range(1, rows + 1):
            loss = 2 / step**0.5 + 0.01 * seed
            rejected = f"{0.5 / (1 + step):.4f}" if step % 10 == 0 else ""
            metrics = f"{100 / step:.4f},0.7,0.6" if step % 25 == 0 else ",,"
            lines.append(f"{step},{step * 0.3},{loss},0.002,{step // 10},{rejected},{metrics}")
        write_text(Train().path(config, "curve", experiment=name, seed=seed), "\n".join(lines) + "\n")


def write_outputs(job: Job) -> None:
    """The files of a job, signed for and kept."""
    with recorded(job):
        for path in job.outputs.values():
            write_text(path, f"{job.id} {path.suffix}")
    cache.keep(job)


def sign(root: Path, job: Job, **made: object) -> None:
    """Write a receipt for the files of a job that did not run."""
    parts = {"params": {}, "code": "c", "inputs": {}}
    outputs = {str(path): _described(root / path) for path in job.outputs.values()}
    fingerprint = fingerprint_of(job.stage.name, parts)
    write_json(root / job.receipt, {"fingerprint": fingerprint, "parts": parts, "outputs": outputs, "made": made})


def _described(path: Path) -> dict[str, str | int]:
    if not path.exists():
        return {"md5": "0" * 32, "size": 1}
    return {"md5": digest(path, "md5"), "size": path.stat().st_size}
