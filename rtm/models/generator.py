"""The generator of RS-IMLE, and of all methods except StyleGAN2: a mapper and a decoder (Sec. 3.2)."""

from typing import cast

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
        self.mapper = mapper
        self.decoder = decoder

    def forward(
        self,
        z: Tensor,
        labels: Tensor | None = None,
        noise: Noise | None = None,
        **depth: float | Tensor,
    ) -> Tensor:
        """Images for z. `depth` has a recursive mapper's H, or its tolerance and max_H."""
        return self.decode(self.mapper(z, **depth), noise)

    def decode(self, w: Tensor, noise: Noise | None) -> Tensor:
        """Images for w. A decoder without `noise_resolutions` takes no noise."""
        resolutions = getattr(self.decoder, "noise_resolutions", None)
        if resolutions is None:
            return cast(Tensor, self.decoder(w))
        maps = noise([(r,) for r in resolutions]) if noise and resolutions else []
        return cast(Tensor, self.decoder(w, maps))

    def compile_parts(self) -> None:
        compile_mapper(self.mapper)
        compile_part(self.decoder)


def build_generator(architecture: Architecture) -> Generator:
    """Build the decoder before the mapper: so with one seed, it starts with the same weights for all mappers."""
    assert architecture.decoder is not None
    options = dict(architecture.decoder)
    kind = options.pop("kind", Decoder)  # of a user's class
    sizes = {"dim": architecture.dim}
    if kind is not Decoder:
        sizes["resolution"] = architecture.resolution
    decoder = built(kind, sizes, options)
    return Generator(build_mapper(architecture.mapper, architecture.dim), decoder)
