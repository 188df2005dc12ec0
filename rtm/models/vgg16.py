"""torchvision's VGG16: the network of the perceptual loss, and of RS-IMLE's precision and recall."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torchvision.models.vgg import VGG, vgg16


def load_vgg16(tensors: Mapping[str, Tensor]) -> VGG:
    """The frozen network with these weights. If they are only of the convolutions, the classifier is empty."""
    with torch.device("meta"):  # random initial weights would take longer than everything else
        network = vgg16(weights=None)
    if not any(name.startswith("classifier.") for name in tensors):
        network.classifier = nn.Sequential()
    network.load_state_dict(tensors, assign=True)
    return network.eval().requires_grad_(False)
