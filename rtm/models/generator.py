"""The generator of RS-IMLE, and of all methods except StyleGAN2: a mapper and a decoder (Sec. 3.2)."""

from torch import Tensor, nn

from rtm.config.architecture import Architecture
from rtm.config.classes import built
from rtm.models.decoders import Decoder
from rtm.models.layers import Noise, compile_mapper, compile_part
from rtm.models.registry import build_mapper


class Generator(nn.Module):
    """z -> w -> image."""

    def __init__(self, mapper: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.mapper, self.decoder = mapper, decoder

    def forward(
        self, z: Tensor, labels: Tensor | None = None, noise: Noise | None = None, **depth: float | Tensor
    ) -> Tensor:
        """Images for z. `depth` has a recursive mapper's H, or its tolerance and max_H."""
        return self.decode(self.mapper(z, **depth), noise)

    def decode(self, w: Tensor, noise: Noise | None) -> Tensor:
        """Images for w. A decoder without `noise_resolutions` takes no noise."""
        wanted = getattr(self.decoder, "noise_resolutions", None)
        maps = noise([(r,) for r in wanted]) if noise and wanted else []
        images: Tensor = self.decoder(w) if wanted is None else self.decoder(w, maps)
        return images

    def compile_parts(self) -> None:
        compile_mapper(self.mapper)
        compile_part(self.decoder)


def build_generator(architecture: Architecture) -> Generator:
    """Build the decoder before the mapper: so with one seed, it starts with the same weights for all mappers."""
    assert architecture.decoder is not None
    options, given = dict(architecture.decoder), {"dim": architecture.dim}
    own = options.pop("kind", None)  # a user's class
    decoder = built(own or Decoder, given | ({"resolution": architecture.resolution} if own else {}), options)
    return Generator(build_mapper(architecture.mapper, architecture.dim), decoder)
