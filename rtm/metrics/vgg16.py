"""VGG16's features for precision and recall, as RS-IMLE measures them."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from rtm.core.errors import UserError
from rtm.data.weights import NETWORKS
from rtm.metrics.features import Extractor, Features, identity
from rtm.models.vgg16 import load_vgg16


class VGG16Extractor(Extractor):
    """The second fully connected layer before its ReLU, 4096-d; images are resized by Pillow, in 8 bits."""

    SIDE = 224

    def __init__(self, weights: Path) -> None:
        super().__init__()
        self.network = load_vgg16(weights)
        if not self.network.classifier:
            address = NETWORKS["vgg16"].sources[0].url
            raise UserError(
                f"{weights} holds VGG16's convolutions only; get {address} and run "
                f"`rtm fetch vgg16 --source {Path(address).name}`."
            )
        self.network.classifier = self.network.classifier[:4]
        self.digest = identity(weights, "pil_bilinear")

    def forward(self, images: Tensor) -> Features:
        pixels = images.permute(0, 2, 3, 1).cpu().numpy()
        size = (self.SIDE, self.SIDE)
        resized = [Image.fromarray(each).resize(size, Image.Resampling.BILINEAR) for each in pixels]
        x = torch.from_numpy(np.stack([np.asarray(each) for each in resized])).to(images.device)
        mean, std = (torch.tensor(v, device=x.device) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
        return Features(self.network(((x / 255 - mean) / std).permute(0, 3, 1, 2)), None)
