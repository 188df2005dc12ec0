"""FID's Inception-v3 (TensorFlow's network of 2015-12-05): torch-fidelity's layers, faster, with the same results.

The batch norms are folded into the convolutions in float64, and the weights are in channels-last order.
"""

from collections import OrderedDict
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torch_fidelity.feature_extractor_inceptionv3 import (
    BasicConv2d,
    InceptionA,
    InceptionB,
    InceptionC,
    InceptionD,
    InceptionE_1,
    InceptionE_2,
)


def inception_layers() -> nn.Sequential:
    """Images (batch, 3, 299, 299), normalised, to pooled features (batch, 2048); the names are torch-fidelity's."""
    layers: list[tuple[str, nn.Module]] = [
        ("Conv2d_1a_3x3", BasicConv2d(3, 32, kernel_size=3, stride=2)),
        ("Conv2d_2a_3x3", BasicConv2d(32, 32, kernel_size=3)),
        ("Conv2d_2b_3x3", BasicConv2d(32, 64, kernel_size=3, padding=1)),
        ("MaxPool_1", nn.MaxPool2d(3, stride=2)),
        ("Conv2d_3b_1x1", BasicConv2d(64, 80, kernel_size=1)),
        ("Conv2d_4a_3x3", BasicConv2d(80, 192, kernel_size=3)),
        ("MaxPool_2", nn.MaxPool2d(3, stride=2)),
        ("Mixed_5b", InceptionA(192, pool_features=32)),
        ("Mixed_5c", InceptionA(256, pool_features=64)),
        ("Mixed_5d", InceptionA(288, pool_features=64)),
        ("Mixed_6a", InceptionB(288)),
        *((f"Mixed_6{name}", InceptionC(768, width)) for name, width in zip("bcde", (128, 160, 160, 192), strict=True)),
        ("Mixed_7a", InceptionD(768)),
        ("Mixed_7b", InceptionE_1(1280)),
        ("Mixed_7c", InceptionE_2(2048)),
        ("AvgPool", nn.AdaptiveAvgPool2d(1)),
        ("Flatten", nn.Flatten()),
    ]
    return nn.Sequential(OrderedDict(layers))


def load_inception(tensors: Mapping[str, Tensor]) -> nn.Sequential:
    """The frozen layers with their weights, without the last layer (fc), which gives the classes."""
    with torch.device("meta"):
        network = inception_layers()
    of_layers = {name: tensor for name, tensor in tensors.items() if not name.startswith("fc.")}
    network.load_state_dict(of_layers, assign=True)
    network.double().eval()
    for layer in list(network.modules()):
        if isinstance(layer, BasicConv2d):
            layer.conv = fuse_conv_bn_eval(layer.conv, layer.bn)
            layer.bn = nn.Identity()
    network.to(torch.float32, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network.requires_grad_(False)
