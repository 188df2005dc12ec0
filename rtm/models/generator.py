"""The generator of RS-IMLE, and of every method but StyleGAN2: a mapper and a decoder (Sec. 3.2)."""

from torch import Tensor, nn

from rtm.config import Experiment
from rtm.models.decoders import Decoder
from rtm.models.layers import Noise, compile_mapper, compile_part
from rtm.models.registry import build_mapper


class Generator(nn.Module):
    """z -> w -> image."""

    def __init__(self, mapper: nn.Module, decoder: Decoder) -> None:
        super().__init__()
        self.mapper, self.decoder = mapper, decoder

    def forward(
        self, z: Tensor, labels: Tensor | None = None, noise: Noise | None = None, **depth: float | Tensor
    ) -> Tensor:
        """`depth` are a recursive mapper's H, or tolerance and max_H."""
        return self.decode(self.mapper(z, **depth), noise)

    def decode(self, w: Tensor, noise: Noise | None) -> Tensor:
        maps = noise([(r,) for r in self.decoder.noise_resolutions]) if noise else []
        images: Tensor = self.decoder(w, maps)
        return images

    def compile_parts(self) -> None:
        compile_mapper(self.mapper)
        compile_part(self.decoder)


def build_generator(experiment: Experiment) -> Generator:
    """Decoder before mapper: with one seed, all mappers start before the same decoder weights."""
    assert experiment.decoder is not None
    dim = experiment.recipe.dim
    decoder = Decoder(dim, **experiment.decoder.model_dump())
    return Generator(build_mapper(experiment.mapper, dim), decoder)
