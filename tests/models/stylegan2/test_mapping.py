"""The mapping, also in another project's StyleGAN-like generator: labels, truncation, the running mean of w."""

import copy
import math
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from support.small_gan import DIM
from torch import Tensor, nn
from torch.testing import assert_close

from rtm import RTM, MLPMapper
from rtm.core.errors import UserError
from rtm.models.layers import parameters, pixel_norm, relative_change
from rtm.models.stylegan2.generator import StyleGenerator, Synthesis
from rtm.models.stylegan2.mapping import StyleMapping


class ForeignMapping(nn.Module):
    """A mapping network with the interface that a StyleGAN generator expects."""

    def __init__(self, z_dim: int, num_ws: int) -> None:
        super().__init__()
        self.layer = nn.Linear(z_dim, z_dim)
        self.num_ws = num_ws

    def forward(self, z: Tensor, c: Tensor | None, truncation_psi: float = 1, **other: Any) -> Tensor:
        return torch.stack([self.layer(z)] * self.num_ws, 1) * truncation_psi


class NvlabsGenerator(nn.Module):
    """It calls mapping(z, c, ...) like stylegan2-ada-pytorch and stylegan3: with one-hot rows, which may have no
    columns."""

    def __init__(self, z_dim: int, c_dim: int, w_dim: int, num_ws: int) -> None:
        super().__init__()
        self.z_dim = z_dim
        self.c_dim = c_dim
        self.w_dim = w_dim
        self.num_ws = num_ws
        self.mapping: nn.Module = ForeignMapping(w_dim, num_ws)
        self.synthesis = nn.Linear(num_ws * w_dim, 3 * 4 * 4)

    def forward(
        self,
        z: Tensor,
        c: Tensor | None,
        truncation_psi: float = 1,
        update_emas: bool = False,
    ) -> Tensor:
        ws = self.mapping(z, c, truncation_psi=truncation_psi, truncation_cutoff=None, update_emas=update_emas)
        return self.synthesis(ws.flatten(1)).view(-1, 3, 4, 4)  # type: ignore[no-any-return]


@pytest.mark.parametrize("build", [lambda: RTM(16, 2, 8, 4, 1, lr_mul=0.01), lambda: MLPMapper(16, 2, lr_mul=0.01)])
def test_mapper_in_a_foreign_generator(build: Any) -> None:
    generator = NvlabsGenerator(z_dim=16, c_dim=0, w_dim=16, num_ws=3)
    generator.mapping = StyleMapping(build(), num_ws=3)
    z = torch.randn(8, 16)
    generator(z, None, update_emas=True).sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in generator.mapping.parameters() if p.ndim > 1)
    mapping = generator.eval().mapping
    assert isinstance(mapping, StyleMapping)
    w = mapping.mapper(z).detach()
    assert_close(mapping.w_avg, 0.002 * w.detach().mean(0))
    assert_close(mapping(z), w[:, None].expand(8, 3, 16))
    assert_close(mapping(z, truncation_psi=0), mapping.w_avg.expand(8, 3, 16))
    half = mapping(z, None, 0.5, truncation_cutoff=2)
    assert_close(half[:, 1], (w + mapping.w_avg) / 2)
    assert_close(half[:, 2], w)
    mean = mapping.w_avg.clone()
    generator(z, None)
    mapping.train()
    ws = mapping(z, skip_w_avg_update=True)
    assert torch.equal(mapping.w_avg, mean)
    ws[:, 1:] = ws[:, :1] + 1  # StyleGAN's own training mixes styles in place like this
    assert torch.equal(ws[:, 0], w)


def test_conditional_mapping_counts_and_uses_the_label() -> None:
    with torch.device("meta"):
        assert parameters(StyleMapping(MLPMapper(512, 2, lr_mul=0.01, in_dim=1024), 8, c_dim=10)) == 793_088
        assert parameters(StyleMapping(RTM(512, 4, 128, 16, 1, in_dim=1024), 8, c_dim=10)) == 657_600 + 262_144 + 5_632
    mapping = StyleMapping(RTM(16, 2, 8, 4, 1, in_dim=32), 3, c_dim=10)
    z = torch.randn(1, 16).expand(2, 16)
    ws = mapping(z, torch.eye(10)[:2])
    assert not torch.allclose(ws[0], ws[1])
    assert torch.equal(ws, mapping(z, torch.tensor([0, 1])))
    with pytest.raises(UserError, match="pass labels"):
        mapping(z)
    with pytest.raises(UserError, match="in_dim=32"):
        StyleMapping(RTM(16, 2, 8, 4, 1), 3, c_dim=10)


def test_labels_are_never_ignored() -> None:
    """A conditional generator also passes labels to a mapping that was built without classes."""
    mapping = StyleMapping(RTM(16, 2, 8, 4, 1), 3)
    z = torch.randn(2, 16)
    assert torch.equal(mapping(z, torch.zeros(2, 0)), mapping(z))  # an unconditional StyleGAN2 passes no columns
    with pytest.raises(UserError, match="would ignore its labels; build it with c_dim, the number of classes"):
        mapping(z, torch.eye(10)[:2])


def trained(
    generator: nn.Module,
    mapping: nn.Module,
    synthesis: nn.Module,
    labels: Tensor,
    z_dim: int,
) -> None:
    """A step like in the training of those projects: Adam with one rate, and styles mixed in place."""
    optimiser = torch.optim.Adam(generator.parameters(), lr=0.002, betas=(0.0, 0.99))
    z = torch.randn(len(labels), z_dim)
    ws = mapping(z, labels)
    ws[:, 1:] = mapping(torch.randn_like(z), labels, skip_w_avg_update=True)[:, 1:]
    F.softplus(-synthesis(ws.flatten(1))).mean().backward()
    optimiser.step()


def spread(images: Tensor) -> float:
    return images.std(0).max().item()


@pytest.mark.parametrize("c_dim", [0, 10])
def test_recipe_for_nvlabs(c_dim: int) -> None:
    """docs/extending.md: assign the mapping after the generator is built, and before its copy and its optimiser."""
    G = NvlabsGenerator(z_dim=24, c_dim=c_dim, w_dim=16, num_ws=3)
    G.mapping = StyleMapping.rtm(G.z_dim, G.c_dim, G.w_dim, G.mapping.num_ws, width=8, H=4)  # type: ignore[arg-type]
    G_ema = copy.deepcopy(G).eval()
    one_hot = torch.eye(10)[:, :c_dim]
    z = torch.randn(1, 24).expand(10, 24)
    images = G_ema(z, one_hot)
    assert (spread(images) > 0.01) == bool(c_dim)  # one z with ten labels
    before = G.mapping(z, one_hot)[:, 0].detach()
    trained(G, G.mapping, G.synthesis, one_hot, 24)
    after = G.mapping(z, one_hot)[:, 0].detach()
    moved = relative_change(before, after, 1).max()
    assert 0 < moved < 0.05  # with the other layers' rate it would be about 1 / 3
    assert_close(G_ema(z, one_hot, truncation_psi=0), G_ema(z[:1], one_hot[:1], 0).expand(10, 3, 4, 4))


def test_recipe_for_studiogan() -> None:
    """It keeps a reference to Gen.mapping, and always passes one-hot integers, also without conditioning."""
    labels = F.one_hot(torch.arange(10), 10)
    for conditional in (True, False):
        Gen = NvlabsGenerator(z_dim=16, c_dim=10 if conditional else 0, w_dim=16, num_ws=3)
        Gen.mapping = StyleMapping.rtm(16, Gen.c_dim, 16, 3, ignore_labels=not conditional, width=8, H=4)
        Gen_mapping = Gen.mapping
        Gen_synthesis = Gen.synthesis  # it trains these references
        z = torch.randn(1, 16).expand(10, 16)
        assert (spread(Gen_mapping(z, labels, truncation_psi=1)) > 0.01) == conditional
        trained(Gen, Gen_mapping, Gen_synthesis, labels, 16)
        assert any(parameter.grad is not None and parameter.grad.any() for parameter in Gen.mapping.parameters())


def test_recipe_for_rs_imle() -> None:
    """Its decoder takes the first value that the mapping network returns."""

    class Returned(nn.Module):
        def __init__(self, mapper: nn.Module) -> None:
            super().__init__()
            self.mapper = mapper

        def forward(self, z: Tensor) -> tuple[Tensor, None]:
            return self.mapper(z), None

    torch.manual_seed(0)
    mapping_network = Returned(RTM(32, None, 8, 4, 2))
    w = mapping_network(torch.randn(5, 32))[0]
    assert w.shape == (5, 32)  # without the tuple, [0] would be the w of the first sample alone


def test_conditional_input_is_normalised_z_beside_normalised_embedding() -> None:
    seen: list[Tensor] = []

    class Spy(nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            seen.append(z)
            return z[:, :DIM]

    generator = StyleGenerator(Spy(), Synthesis(DIM, 4, 32, 4), classes=3)
    z = 5 * torch.randn(2, DIM)
    generator.mapping.map(z, torch.tensor([2, 1]))
    layer = cast(Any, generator.mapping.embedding).linear
    embedded = layer.weight[:, [2, 1]].T / math.sqrt(3) + layer.bias
    assert_close(seen[0], torch.cat([pixel_norm(z), pixel_norm(embedded)], 1))
    assert_close(seen[0].square().view(2, 2, DIM).mean(2), torch.ones(2, 2))
