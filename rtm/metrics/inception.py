"""FID's Inception-v3 as an extractor of features."""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from rtm.data.weights import load_network
from rtm.metrics.features import Extractor, Features, identity
from rtm.metrics.inception_network import load_inception
from rtm.metrics.resize import resized


class InceptionExtractor(Extractor):
    """2048 pooled features and, if the weights have them, logits of 1008 classes.

    The kind of resizing also decides other details. torch-fidelity's `tf1` and clean-fid's `pil_bicubic` normalise as
    TensorFlow did and leave out the bias of the classes. StudioGAN's `torch` maps 0..255 to -1..1 and keeps the bias.
    """

    SIDE = 299
    head: Tensor | None
    bias: Tensor | None

    def __init__(self, weights: Path, resize: str = "tf1") -> None:
        super().__init__()
        tensors = load_network(weights)
        self.network = load_inception(tensors)
        self.resize = resize
        self.register_buffer("head", tensors.get("fc.weight"))
        self.register_buffer("bias", tensors.get("fc.bias") if resize == "torch" else None)
        self.digest = identity(weights, resize)
        self.title = f"Inception-v3, resize {resize}"

    def forward(self, images: Tensor) -> Features:
        pixels = resized(images, self.resize, self.SIDE)
        if self.resize == "pil_bicubic":
            pixels = pixels.clamp(0, 255)
        pixels = pixels / 127.5 - 1 if self.resize == "torch" else (pixels - 128) / 128
        features: Tensor = self.network(pixels.contiguous(memory_format=torch.channels_last))
        if self.head is None:
            return Features(features, None)
        return Features(features, F.linear(features, self.head, self.bias))
