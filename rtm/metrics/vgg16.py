"""VGG16's features for precision and recall, as RS-IMLE measures them."""

from pathlib import Path

from PIL import Image
from torch import Tensor

from rtm.core.errors import UserError
from rtm.data.networks import NETWORKS
from rtm.data.weights import load_network
from rtm.metrics.features import Extractor, Features, identity
from rtm.metrics.resize import imagenet_normalised, resized_by_pillow
from rtm.models.vgg16 import load_vgg16


class VGG16Extractor(Extractor):
    """The second fully connected layer before its ReLU, 4096-d. Images are resized by Pillow in 8 bits."""

    SIDE = 224
    title = "VGG16-fc2"

    def __init__(self, weights: Path, resize: str = "none") -> None:
        super().__init__()
        self.network = load_vgg16(load_network(weights))
        if not self.network.classifier:
            address = NETWORKS["vgg16"].sources[0].origin
            raise UserError(
                f"{weights} holds VGG16's convolutions only; get {address} and run "
                f"`rtm fetch vgg16 --source {Path(address).name}`."
            )
        self.network.classifier = self.network.classifier[:4]
        self.digest = identity(weights, "pil_bilinear")

    def forward(self, images: Tensor) -> Features:
        pixels = resized_by_pillow(images, self.SIDE, Image.Resampling.BILINEAR)
        return Features(self.network(imagenet_normalised(pixels)), None)
