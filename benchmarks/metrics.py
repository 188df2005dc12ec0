"""Metrics against the packages they replace: precision and recall, Fréchet distance, feature extraction, memory."""

import contextlib
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
import prdc as published
import scipy.linalg
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch_fidelity import feature_extractor_inceptionv3 as theirs
from torch_fidelity.metric_fid import fid_features_to_statistics, fid_statistics_to_metric
from torch_fidelity.metric_prc import calculate_precision_recall_part

from benchmarks.measuring import Groups, added_megabytes, alone, in_turn, now, show
from rtm.metrics import frechet_distance, prdc
from rtm.metrics.features import extract
from rtm.metrics.inception import InceptionExtractor

Array = NDArray[np.float32]


def features(count: int, width: int, seed: int) -> Array:
    """Like Inception's: not negative, some directions much wider than others; made in pieces, to keep memory low."""
    rng, shared = np.random.default_rng(seed), np.random.default_rng(0)
    directions = shared.standard_normal((64, width), np.float32)
    made = np.empty((count, width), np.float32)
    for piece in np.array_split(made, max(1, count // 500)):
        wide = rng.standard_normal((len(piece), 64), np.float32) @ directions
        np.maximum(wide + rng.standard_normal(piece.shape, np.float32), 0, out=piece)
    return made


def clusters(count: int, width: int, seed: int) -> Array:
    """Ten clusters with a spread of 1e-3 of their distance: most pairs of a cluster need float64."""
    rng, shared = np.random.default_rng(seed), np.random.default_rng(0)
    centres = shared.normal(size=(10, width))
    return (centres[rng.integers(0, 10, count)] + 1e-3 * rng.normal(size=(count, width))).astype(np.float32)


def once(function: Callable[[], object]) -> float:
    began = now()
    function()
    return now() - began


def products(real: torch.Tensor, fake: torch.Tensor, edge: int = 1000) -> None:
    """4 N^2 D operations: both halves of the symmetric products, and the product of real and fake."""
    blocks = [x.split(edge) for x in (real, fake)]
    for side in blocks:
        for number, first in enumerate(side):
            for second in side[number + 1 :]:
                first @ second.T
            half = len(first) // 2
            first @ first[:half].T
    for first in blocks[0]:
        for second in blocks[1]:
            first @ second.T


def precision_and_recall(count: int, width: int) -> dict[str, float]:
    torch.set_num_threads(1)
    real, fake = features(count, width, 1), features(count, width, 2)
    tight = clusters(count, width, 1), clusters(count, width, 2)
    tensors = torch.from_numpy(real), torch.from_numpy(fake)
    products(tensors[0][:2000], tensors[1][:2000])
    with threadpool_limits(1), contextlib.redirect_stdout(io.StringIO()):
        return {
            "bare matrix products": once(lambda: products(*tensors)),
            "prdc of rtm": once(lambda: prdc(real, fake, k=3, device="cpu")),
            "prdc of rtm, tight clusters": once(lambda: prdc(*tight, k=3, device="cpu")),
            "torch-fidelity": once(lambda: calculate_precision_recall_part(*tensors[::-1])),
            "prdc": once(lambda: published.compute_prdc(real, fake, nearest_k=3)),
        }


def added_by_prdc(count: int, width: int) -> float:
    real, fake = features(count, width, 1), features(count, width, 2)
    prdc(real[:1500], fake[:1500])
    return added_megabytes(lambda: prdc(real, fake, k=3))


def frechet(count: int, width: int) -> dict[str, float]:
    real, fake = features(count, width, 1), features(count, width, 2)

    def by_torch_fidelity() -> None:
        statistics = [fid_features_to_statistics(torch.from_numpy(x)) for x in (real, fake)]
        fid_statistics_to_metric(*statistics, verbose=False)

    def by_sqrtm() -> None:
        covariances = [np.cov(x, rowvar=False) for x in (real, fake)]
        scipy.linalg.sqrtm(covariances[0] @ covariances[1])

    with threadpool_limits(1):
        frechet_distance(real[:300], fake[:300])
        times = {"frechet_distance": once(lambda: frechet_distance(real, fake))}
        times["torch-fidelity"] = once(by_torch_fidelity)
        times["scipy.linalg.sqrtm"] = once(by_sqrtm)
    return times


def extraction(count: int) -> dict[str, float]:
    """Images a second through Inception with random weights."""
    with (
        patch.object(theirs, "load_state_dict_from_url", lambda *_, **__: {}),
        patch.object(theirs.FeatureExtractorInceptionV3, "load_state_dict", lambda *_: None),
    ):
        network = theirs.FeatureExtractorInceptionV3("random", ["2048", "logits_unbiased"])
    images = np.random.default_rng(0).integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
    batch = torch.from_numpy(images).permute(0, 3, 1, 2)
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        save_file(network.state_dict(), f"{folder}/inception.safetensors")
        ours = InceptionExtractor(Path(folder) / "inception.safetensors")
        times = in_turn(
            {
                "torch-fidelity": lambda: network(batch),
                "InceptionExtractor": lambda: extract(images, ours, count, "cpu"),
            },
            repeats=5,
        )
        return {name: count / time for name, time in times.items()}


def measure(count: int = 20_000, width: int = 2048, images: int = 32) -> Groups:
    size = f"{count} + {count} x {width}"
    pr, megabytes = alone(precision_and_recall, count, width), alone(added_by_prdc, count, width)
    many, few = alone(frechet, 5000, width), alone(frechet, 1000, width)
    speed = alone(extraction, images)
    ours = pr["prdc of rtm"]
    return {
        f"precision, recall, density, coverage, {size}, s": pr,
        f"precision, recall, density, coverage, {size}, MB": {"added by prdc of rtm": megabytes},
        f"Fréchet distance, 5000 + 5000 x {width}, s": many,
        f"Fréchet distance, 1000 + 1000 x {width}, s": few,
        "Inception features, images/s": speed,
        "metrics ratios": {
            "prdc / ours": pr["prdc"] / ours,
            "torch-fidelity's precision and recall / ours": pr["torch-fidelity"] / ours,
            "ours / bare products": ours / pr["bare matrix products"],
            "tight clusters / ordinary features": pr["prdc of rtm, tight clusters"] / ours,
            "sqrtm / frechet_distance, N = 5000": many["scipy.linalg.sqrtm"] / many["frechet_distance"],
            "torch-fidelity / frechet_distance, N = 5000": many["torch-fidelity"] / many["frechet_distance"],
            "torch-fidelity / frechet_distance, N = 1000": few["torch-fidelity"] / few["frechet_distance"],
            "InceptionExtractor / torch-fidelity": speed["InceptionExtractor"] / speed["torch-fidelity"],
        },
    }


if __name__ == "__main__":
    show(measure())
