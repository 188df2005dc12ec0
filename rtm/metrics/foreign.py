"""Measure images of any origin as the pipeline measures its own; on request also intervals and copies."""

import sys
from pathlib import Path
from typing import Any

from rtm.config import Config
from rtm.core.devices import best_device
from rtm.core.errors import UserError
from rtm.core.files import digest_of_all, write_json
from rtm.core.layout import Layout
from rtm.metrics.evaluate import BATCH, ImageSet, check_count, features_of, load_extractors, measure
from rtm.metrics.features import extract
from rtm.metrics.images import Pictures, load_images
from rtm.metrics.memorisation import distances_of_others, memorisation
from rtm.metrics.uncertainty import check_resamples, intervals


def evaluate_images(
    config: Config,
    layout: Layout,
    path: Path,  # a folder of images, an .npy or an .npz file
    dataset: str,  # whose training set is the reference
    protocol_name: str,
    resamples: int = 0,  # of the bootstrap; 0: no intervals
    memorised: bool = False,  # whether to look for copies
    held_out: Path | None = None,  # images that were not trained on, for that
) -> dict[str, Any]:
    """The metrics of the images at `path` by name; `intervals` and `memorisation` where they are asked for."""
    check_resamples(resamples)
    protocol, side = config.params.protocols[protocol_name], config.params.datasets[dataset].resolution
    required, images = protocol.required(dataset), _load(path, side)
    check_count(images, required)
    unseen = None if held_out is None else _load(held_out, side)
    if len(images) > required:
        print(f"rtm: {path} holds {len(images)} images; only the first {required} are measured.", file=sys.stderr)
    real = ImageSet.load(layout.reference(dataset, protocol_name))
    extractors = load_extractors(protocol, layout, real)
    others = None
    if memorised:  # before the metrics, because it may refuse
        extractor = extractors[protocol.pr_extractor]
        features = None if unseen is None else extract(unseen, extractor, BATCH, best_device()).features
        others = distances_of_others(real.coverage.features, features)
    fake = features_of(images, protocol, extractors, required, None if memorised else protocol.pr_samples)
    measured = measure(fake, real, protocol)
    result: dict[str, Any] = {
        "images": str(path),
        "dataset": dataset,
        "protocol": protocol_name,
        "found": len(images),
        "samples": required,
        "metrics": measured.metrics,
        "provenance": {"extractors": real.extractors},
    }
    if resamples:
        result["intervals"] = intervals(
            measured.metrics, fake.quality, real.statistics, measured.members, protocol.splits, resamples
        )
    if others is not None:
        result["memorisation"] = memorisation(fake.coverage.features, real.coverage.features, others)
    return result


def _load(path: Path, side: int) -> Pictures:
    """Images as large as the training images: at another size they would be other images to every network."""
    images = load_images(path)
    height, width = images[0:1].shape[1:3]
    if (height, width) != (side, side):
        raise UserError(f"{path} holds images of {width} x {height} px, the dataset of {side} x {side}: resize them.")
    return images


def write_foreign(config: Config, layout: Layout, name: str, protocol: str) -> None:
    """The metrics of an entry of params/foreign.yaml, once its images are those that it means."""
    foreign = config.params.foreign[name]
    path = Path(foreign.samples)
    if not path.exists():
        raise UserError(f"{path} is not here; put there what params/foreign.yaml names {name}: {foreign.source}.")
    if (found := digest_of_all(path)) != foreign.sha256:
        raise UserError(f"{path} has sha256 {found}, but params/foreign.yaml says {foreign.sha256} for {name}.")
    measured = evaluate_images(config, layout, path, foreign.dataset, protocol)
    measured["provenance"] |= {"samples_sha256": found, "source": foreign.source}
    write_json(layout.foreign(name, protocol), measured)
