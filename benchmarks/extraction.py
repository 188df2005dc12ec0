"""Inception features: images a second against torch-fidelity's own extractor, with random weights."""

import tempfile
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from safetensors.torch import save_file
from torch_fidelity import feature_extractor_inceptionv3 as theirs

from benchmarks.measuring import Groups, alone, in_turn, show
from rtm.metrics.features import extract
from rtm.metrics.inception import InceptionExtractor


def extraction(count: int) -> dict[str, float]:
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


def measure(images: int = 32) -> Groups:
    speed = alone(extraction, images)
    return {
        "Inception features, images/s": speed,
        "Inception ratios": {
            "InceptionExtractor / torch-fidelity": speed["InceptionExtractor"] / speed["torch-fidelity"]
        },
    }


if __name__ == "__main__":
    show(measure())
