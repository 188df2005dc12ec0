"""Every metric, in one row: its name and title, where it is measured, how it is shown, and how it is computed.

A new metric is a row here and a function. It is then in metrics files, tables, figures, the page and `dvc metrics
diff`.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Metric:
    name: str  # in files and in params/
    title: str  # for readers
    section: Literal["protocol", "latency", "training"] = "protocol"  # metrics files, latency.json, or curves
    better: Better | None = None  # None: neither
    share: bool = False  # a number from 0 to 1
    decimals: int = 6  # in metrics files
    spread: bool = True  # whether its standard deviation over seeds means something
    error: bool = False  # the error of another metric: files hold it, nothing shows it alone
    in_summary: str = ""  # its name in summaries, if `name` means something else there
    logarithmic: bool = False  # its axis
    swept: bool = False  # whether `dvc plots` shows it against H
    label: str = ""  # a shorter title, for lists; a list shows `times` the value with `digits` decimals
    times: float = 1
    digits: int = 4
    # "package.module:function", (fake: ImageSet, real: ImageSet, protocol: Protocol) -> dict[str, float]. It may give
    # several metrics; None: the function of another row, or `rtm.metrics` itself, gives this one
    compute: str | None = None

    @property
    def short(self) -> str:
        return self.label or self.title


ROWS = (
    Metric("fid", "FID", better="lower", logarithmic=True, swept=True, digits=3),
    Metric("fid_floor", "FID of real images", spread=False, label="  floor", digits=3),
    Metric("kid", "KID", better="lower", decimals=9, label="KID x 1000", times=1000),
    Metric("kid_se", "standard error of KID", decimals=9, spread=False, error=True),
    Metric("is", "Inception Score", better="higher", label="IS", digits=3),
    # the spread over splits; in a summary `is_std` is the spread over seeds
    Metric("is_std", "spread of IS over splits", spread=False, error=True, in_summary="is_splits_std"),
    # with the digit classifier
    Metric("sure", "samples that the classifier is surer of than 0.9", better="higher", share=True, label="sure"),
    Metric("precision", "precision", better="higher", share=True, swept=True),
    Metric("recall", "recall", better="higher", share=True, swept=True),
    Metric("density", "density", better="higher"),
    Metric("coverage", "coverage", better="higher", share=True),
    # of recursive mappers
    Metric("steps", "refinement steps", decimals=9),
    Metric("hardness", "rank correlation of steps and distance to the data", decimals=9),
    Metric("z_change", "change of the state in the last step", decimals=9),
    Metric("z_tail", "change of the state in the last step, 90 % of the latents", decimals=9),
    Metric("w_change", "change of w in the last step", decimals=9, logarithmic=True),
    Metric("flips", "classes that change from H to 2H", decimals=9),
    Metric("feature_change", "feature distance between H and 2H", decimals=9),
    Metric("rounding", "amplification of rounding", decimals=9),
    Metric("rounding_tail", "amplification of rounding, 90 % of the latents", decimals=9),
    Metric("time_ms", "time per image (ms)", "latency", better="lower"),
    Metric("mapper_parameters", "parameters of the mapper", "latency"),
    Metric("generator_parameters", "parameters of the generator", "latency"),
    # of the curves of a training
    Metric("loss", "loss", "training", logarithmic=True),
    Metric("rejected", "rejected share of the pool", "training", share=True),
)
METRICS = {row.name: row for row in ROWS}


def measured_metrics() -> list[Metric]:
    """The metrics that results hold and reports show, in the order in which they are listed."""
    return [row for row in METRICS.values() if row.section != "training" and not row.error]


def known_metric(name: str) -> str:
    """The name of a metric that reports show; an error names similar ones."""
    names = [row.name for row in measured_metrics()]
    if name in names:
        return name
    similar = get_close_matches(name, names, n=3, cutoff=0.5)
    if similar:
        raise ValueError(f"there is no metric {name!r}; did you mean {' or '.join(similar)}?")
    raise ValueError(f"there is no metric {name!r}; choose one of {', '.join(names)}")


def is_cost(name: str | None) -> bool:
    """Whether a metric is a time or a size, which has neither a protocol nor seeds."""
    return name is not None and METRICS[name].section == "latency"


def decimals(name: str) -> int:
    """The decimals of a metric in metrics files."""
    return METRICS[name].decimals if name in METRICS else Metric.decimals


def functions() -> list[str]:
    """The functions that compute metrics of added rows, each once."""
    return list(dict.fromkeys(row.compute for row in METRICS.values() if row.compute))
