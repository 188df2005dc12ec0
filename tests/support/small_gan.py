"""A StyleGAN2 that is small enough for slow references."""

from torch import nn

from rtm.models.mappers import MLPMapper
from rtm.models.stylegan2.discriminator import Architecture, Discriminator
from rtm.models.stylegan2.generator import StyleGenerator, Synthesis

DIM = 6


def small_generator(classes: int = 0, resolution: int = 8) -> StyleGenerator:
    mapper = MLPMapper(DIM, layers=2, lr_mul=0.01, in_dim=2 * DIM if classes else None)
    generator = StyleGenerator(
        mapper, Synthesis(DIM, resolution, channel_base=8 * resolution // 2, channel_max=5), classes
    )
    for name, parameter in generator.named_parameters():
        if "noise_strength" in name or "bias" in name:
            nn.init.normal_(parameter, std=0.3)  # like trained weights, so that no weight is zero in a test
    return generator


def small_discriminator(architecture: Architecture = "orig", classes: int = 0) -> Discriminator:
    return Discriminator(8, architecture, channel_base=32, channel_max=5, mbstd_group=2, classes=classes)
