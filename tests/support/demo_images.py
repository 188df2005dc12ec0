"""The digits of the demo: its protocol with a random network, few training images, and arrays to compare."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import save_file
from support.images import Pixels, pixels

from rtm.config import Config, load
from rtm.core.files import write_json
from rtm.models.digits import DigitClassifier
from rtm.stages.dataset import Dataset
from rtm.stages.network import Network


class Demo(NamedTuple):
    config: Config
    images: Pixels  # of the training set


def prepared(folder: Path) -> Demo:
    """The protocol of the digits with a random network and a training set of 200 images."""
    config = load("demo").at(folder)
    images = pixels(200)
    torch.manual_seed(0)
    Network().path(config, "weights", network="digit_classifier").parent.mkdir()
    save_file(DigitClassifier().state_dict(), Network().path(config, "weights", network="digit_classifier"))
    for name, chosen in (("digits", images), ("digits_rest", pixels(160, seed=5)), ("digits300", pixels(100, seed=6))):
        Dataset().path(config, "images", dataset=name).parent.mkdir(parents=True)
        np.save(Dataset().path(config, "images", dataset=name), chosen)
        write_json(Dataset().path(config, "images", dataset=name).with_name("meta.json"), {"sha256": "made up"})
    protocol = config.params.protocols["digits"]
    config.params.protocols["digits"] = protocol.model_copy(update={"samples": {"digits300": 120, "default": 150}})
    np.save(folder / "fakes.npy", pixels(170, seed=1))
    np.save(folder / "real.npy", images)
    return Demo(config, images)
