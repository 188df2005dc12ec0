"""torchvision's VGG16: the network of the perceptual loss, and of RS-IMLE's precision and recall."""

from pathlib import Path

import torch
from torch import nn
from torchvision.models.vgg import VGG, vgg16

from rtm.data.weights import load_network


def load_vgg16(path: Path) -> VGG:
    """The frozen network with its weights. If the file has only the convolutions, the classifier is empty."""
    tensors = load_network(path)
    with torch.device("meta"):  # random initial weights would take longer than everything else
        network = vgg16(weights=None)
    if not any(name.startswith("classifier.") for name in tensors):
        network.classifier = nn.Sequential()
    network.load_state_dict(tensors, assign=True)
    return network.eval().requires_grad_(False)
