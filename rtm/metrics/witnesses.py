"""The same features through other packages: prdc, torch-fidelity and, where it is installed, clean-fid.

Each witness runs in a process of its own, so its time and its memory are its own.
"""

import resource
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout, suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtm.config.experiments import Protocol
from rtm.metrics.features import FeatureSet
from rtm.metrics.fid import Statistics, frechet_distance
from rtm.metrics.image_set import ImageSet
from rtm.metrics.inception_score import inception_score
from rtm.metrics.kid import kernel_distance
from rtm.metrics.prdc import prdc

Floats = NDArray[np.floating]
Values = dict[str, float]
Computation = Callable[[FeatureSet, FeatureSet, Mapping[str, int]], Values]  # of generated and real images


@dataclass(frozen=True)
class Answer:
    values: Values
    seconds: float
    megabytes: float  # the most memory that it took beyond its input


@dataclass(frozen=True)
class Comparison:
    """One metric by rtm and by another package."""

    metric: str
    package: str
    ours: float
    theirs: float
    seconds: tuple[float, float]  # ours, theirs; of all metrics that the package gives
    megabytes: tuple[float, float]
    tolerance: float  # rounding: float32 where the package computes in it

    @property
    def differs(self) -> bool:
        return abs(self.ours - self.theirs) > self.tolerance


def rtm_moments(fake: FeatureSet, real: FeatureSet, options: Mapping[str, int]) -> Values:
    return {"fid": frechet_distance(Statistics.of(real.features), fake.features)}


def torch_fidelity_moments(fake: FeatureSet, real: FeatureSet, options: Mapping[str, int]) -> Values:
    import torch
    from torch_fidelity.metric_fid import fid_features_to_statistics, fid_statistics_to_metric

    moments = [fid_features_to_statistics(torch.from_numpy(each.features)) for each in (fake, real)]
    return {"fid": fid_statistics_to_metric(*moments, verbose=False)["frechet_inception_distance"]}


def clean_fid_moments(fake: FeatureSet, real: FeatureSet, options: Mapping[str, int]) -> Values:
    from cleanfid.fid import frechet_distance as theirs

    moments = [(each.features.mean(0), np.cov(each.features, rowvar=False)) for each in (fake, real)]
    return {"fid": float(theirs(*moments[0], *moments[1]))}


def rtm_kernel(fake: FeatureSet, real: FeatureSet, options: Mapping[str, int]) -> Values:
    count = min(len(fake), len(real))
    return {"kid": kernel_distance(real.features[:count], fake.features[:count])[0]}


def torch_fidelity_kernel(fake: FeatureSet, real: FeatureSet, options: Mapping[str, int]) -> Values:
    """Without subsets, and so of equally many images."""
    from torch_fidelity.metric_kid import kernel_mmd

    count = min(len(fake), len(real))
    return {"kid": float(kernel_mmd(*(each.features[:count].astype(np.float64) for each in (fake, real))))}


def rtm_scores(fake: FeatureSet, real: FeatureSet, options: Mapping[str, int]) -> Values:
    assert fake.logits is not None
    return {"is": inception_score(fake.logits, options["splits"])[0]}


def torch_fidelity_scores(fake: FeatureSet, real: FeatureSet, options: Mapping[str, int]) -> Values:
    import torch
    from torch_fidelity.metric_isc import isc_features_to_metric

    assert fake.logits is not None
    score = isc_features_to_metric(torch.from_numpy(fake.logits), options["splits"])
    return {"is": score["inception_score_mean"]}


def rtm_strict(fake: FeatureSet, real: FeatureSet, options: Mapping[str, int]) -> Values:
    return prdc(real.features, fake.features, options["k"], strict=True)


def prdc_strict(fake: FeatureSet, real: FeatureSet, options: Mapping[str, int]) -> Values:
    from prdc import compute_prdc

    with redirect_stdout(StringIO()):  # it prints the numbers of images
        shares = compute_prdc(real.features, fake.features, options["k"])
    return {name: float(value) for name, value in shares.items()}


def rtm_inclusive(fake: FeatureSet, real: FeatureSet, options: Mapping[str, int]) -> Values:
    shares = prdc(real.features, fake.features, options["k"], strict=False)
    return {name: shares[name] for name in ("precision", "recall")}


def torch_fidelity_inclusive(fake: FeatureSet, real: FeatureSet, options: Mapping[str, int]) -> Values:
    import torch
    from torch_fidelity.metric_prc import prc_features_to_metric

    features = [torch.from_numpy(each.features) for each in (fake, real)]
    shares = prc_features_to_metric(*features, prc_neighborhood=options["k"], save_cpu_ram=True, verbose=False)
    return {name: shares[name] for name in ("precision", "recall")}


@dataclass(frozen=True)
class Witness:
    package: str
    module: str
    theirs: Computation
    ours: Computation
    of: str  # "quality" or "coverage" features
    tolerance: float  # absolute, or a share of the value if it is larger than 1
    needs_logits: bool = False


WITNESSES = (
    Witness("torch-fidelity", "torch_fidelity", torch_fidelity_moments, rtm_moments, "quality", 1e-4),
    Witness("clean-fid", "cleanfid", clean_fid_moments, rtm_moments, "quality", 1e-3),
    Witness("torch-fidelity", "torch_fidelity", torch_fidelity_kernel, rtm_kernel, "quality", 1e-6),
    Witness("torch-fidelity", "torch_fidelity", torch_fidelity_scores, rtm_scores, "quality", 1e-5, needs_logits=True),
    Witness("prdc", "prdc", prdc_strict, rtm_strict, "coverage", 0),
    Witness("torch-fidelity", "torch_fidelity", torch_fidelity_inclusive, rtm_inclusive, "coverage", 0),
)


def witnesses(fake: ImageSet, real: ImageSet, protocol: Protocol) -> list[dict[str, Any]]:
    """The rows of all packages that are installed, as JSON."""
    return [asdict(row) | {"differs": row.differs} for row in rows(fake, real, protocol)]


def rows(fake: ImageSet, real: ImageSet, protocol: Protocol) -> Iterator[Comparison]:
    options = {"k": protocol.k, "splits": protocol.splits}
    for witness in WITNESSES:
        one: FeatureSet = getattr(fake, witness.of)
        other: FeatureSet = getattr(real, witness.of)
        if witness.of == "coverage" and protocol.pr_samples:
            one = one.first(protocol.pr_samples)
        if find_spec(witness.module) is None or (witness.needs_logits and one.logits is None):
            continue
        ours = measured(witness.ours, one, other, options)
        theirs = measured(witness.theirs, one, other, options)
        for name, value in theirs.values.items():
            # one image of a share may lie on an edge that float32 cannot decide
            smallest = 1 / min(len(one), len(other)) if witness.tolerance == 0 else witness.tolerance
            tolerance = smallest * max(1.0, abs(value))
            pair = (ours.seconds, theirs.seconds)
            memory = (ours.megabytes, theirs.megabytes)
            yield Comparison(name, witness.package, ours.values[name], value, pair, memory, tolerance)


def measured(compute: Computation, fake: FeatureSet, real: FeatureSet, options: Mapping[str, int]) -> Answer:
    """The values of one computation, with its time and memory, in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_answer, compute, fake, real, options).result()


def _answer(compute: Computation, fake: FeatureSet, real: FeatureSet, options: Mapping[str, int]) -> Answer:
    few = slice(0, options["k"] + options["splits"] + 2)
    compute(_part(fake, few), _part(real, few), options)  # imports, which are no part of the time
    _forget_peak()
    before = _peak()
    began = time.perf_counter()
    values = compute(fake, real, options)
    return Answer(values, round(time.perf_counter() - began, 3), round(_peak() - before, 1))


def _part(features: FeatureSet, rows: slice) -> FeatureSet:
    logits = None if features.logits is None else features.logits[rows]
    return FeatureSet(features.features[rows], logits)


def _forget_peak() -> None:
    """Let the peak of this process's memory begin anew, where Linux allows it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak() -> float:
    """The most memory that this process had, in megabytes."""
    with suppress(OSError):  # getrusage would count the memory of the process that started this one
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) / 1000
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
