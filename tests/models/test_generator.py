"""The generator of RS-IMLE: the decoder gets the noise that it asks for, and starts the same with every mapper."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.testing import assert_close

from rtm.models.decoders import Decoder
from rtm.models.generator import Generator
from rtm.models.mappers import RTM, MLPMapper


def test_the_decoder_gets_the_noise_that_it_asks_for() -> None:
    decoder = Decoder(6, "residual", {1: 1, 4: 1, 8: 1}, 8, noise_std=1.0, noise_max_resolution=4)
    generator = Generator(MLPMapper(6, 2), decoder)
    asked = list[Sequence[tuple[int, ...]]]()
    z = torch.randn(2, 6)
    maps = [torch.randn(2, 1, side, side) for side in (1, 4)]

    def noise(wanted: Sequence[tuple[int, ...]]) -> list[Tensor]:
        asked.append(wanted)
        return maps

    images = generator(z, noise=noise)
    assert asked == [[(1,), (4,)]]  # one request for all layers
    assert_close(images, decoder(generator.mapper(z), maps))
    assert_close(generator(z), decoder(generator.mapper(z)))
    assert not torch.allclose(images, generator(z))


def test_a_decoder_that_knows_no_noise_takes_w_alone() -> None:
    generator = Generator(RTM(6, 2, 4, 3, 1), nn.Linear(6, 3))
    z = torch.randn(2, 6)

    def noise(wanted: Sequence[tuple[int, ...]]) -> list[Tensor]:
        raise AssertionError("asked for noise")

    assert_close(generator(z, noise=noise), generator.decoder(generator.mapper(z)))
    assert_close(generator(z, noise=noise, H=5), generator.decoder(generator.mapper(z, H=5)))
    assert not torch.allclose(generator(z), generator(z, H=5))
