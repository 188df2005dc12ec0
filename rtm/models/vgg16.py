"""VGG16 as torchvision has it: the network of the perceptual loss, and of precision and recall as RS-IMLE measures."""

from pathlib import Path

import torch
from torch import nn
from torchvision.models.vgg import VGG, vgg16

from rtm.data.weights import load_network


def load_vgg16(path: Path) -> VGG:
    """The network with its weights, frozen; its classifier is empty where the file holds the convolutions only."""
    tensors = load_network(path)
    with torch.device("meta"):  # a random start would take longer than all the rest
        network = vgg16(weights=None)
    if not any(name.startswith("classifier.") for name in tensors):
        network.classifier = nn.Sequential()
    network.load_state_dict(tensors, assign=True)
    return network.eval().requires_grad_(False)
