"""The generator of RS-IMLE: the decoder gets the noise that it asks for, and starts the same with every mapper."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from support import smoke_workspace
from support.checkpoints import IMLE
from torch import Tensor, nn

from rtm.models.decoders import Decoder
from rtm.models.generator import Generator, build_generator
from rtm.models.mappers import RTM, MLPMapper


def test_the_decoder_gets_the_noise_that_it_asks_for() -> None:
    torch.manual_seed(0)
    decoder = Decoder(6, "residual", {1: 1, 4: 1, 8: 1}, 8, noise_std=1.0, noise_max_resolution=4)
    generator, asked, z = Generator(MLPMapper(6, 2), decoder), list[Sequence[tuple[int, ...]]](), torch.randn(2, 6)
    maps = [torch.randn(2, 1, side, side) for side in (1, 4)]

    def noise(wanted: Sequence[tuple[int, ...]]) -> list[Tensor]:
        asked.append(wanted)
        return maps

    images = generator(z, noise=noise)
    assert asked == [[(1,), (4,)]]  # one request for all layers
    torch.testing.assert_close(images, decoder(generator.mapper(z), maps))
    torch.testing.assert_close(generator(z), decoder(generator.mapper(z)))
    assert not torch.allclose(images, generator(z))


def test_a_decoder_that_knows_no_noise_takes_w_alone() -> None:
    generator, z = Generator(RTM(6, 2, 4, 3, 1), nn.Linear(6, 3)), torch.randn(2, 6)

    def noise(wanted: Sequence[tuple[int, ...]]) -> list[Tensor]:
        raise AssertionError("asked for noise")

    torch.testing.assert_close(generator(z, noise=noise), generator.decoder(generator.mapper(z)))
    torch.testing.assert_close(generator(z, noise=noise, H=5), generator.decoder(generator.mapper(z, H=5)))
    assert not torch.allclose(generator(z), generator(z, H=5))


@pytest.mark.parametrize(
    "mapper", [{"kind": "mlp", "layers": 3}, {"kind": "rtm", "H": 1, "L": 1, "tokens": 2, "width": 8}]
)
def test_with_one_seed_all_mappers_start_before_the_same_decoder(mapper: dict[str, object]) -> None:
    architecture = smoke_workspace.experiment(IMLE).architecture
    starts = []
    for each in (architecture, replace(architecture, mapper=mapper)):
        torch.manual_seed(4)
        starts.append(build_generator(each).decoder.state_dict())
    assert starts[0].keys() == starts[1].keys()
    assert all(torch.equal(starts[0][name], starts[1][name]) for name in starts[0])
