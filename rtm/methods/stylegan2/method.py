"""Adversarial training with any mapper (Sec. 4.3): StyleGAN2, and StyleGAN2-ADA where the recipe has `ada`.

A step has these updates, in this order: the generator; every few steps its path lengths; the discriminator; every few
steps R1. Image i of step s has the number s * batch + i. All its random numbers are functions of the seed, their
purpose and this number, so they do not depend on the number of processes.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from rtm.config import Experiment
from rtm.core import distributed
from rtm.core.devices import sent
from rtm.core.errors import UserError
from rtm.core.randomness import normal
from rtm.methods.base import Method, Setting
from rtm.methods.stylegan2 import losses
from rtm.methods.stylegan2.augment import Augment, adapt, uniform
from rtm.models.drawing import labels_of, latents, noise_of
from rtm.models.layers import Noise, compile_part
from rtm.models.stylegan2.discriminator import Discriminator
from rtm.models.stylegan2.generator import StyleGenerator, build_generator


def build_discriminator(experiment: Experiment) -> Discriminator:
    gan = experiment.recipe.stylegan2
    assert gan is not None
    return Discriminator(
        experiment.architecture.resolution,
        gan.architecture,
        gan.channel_base,
        gan.channel_max,
        gan.mbstd_group,
        experiment.architecture.classes,
    )


class StyleGAN2Method(Method):
    generator: StyleGenerator

    def __init__(self, setting: Setting) -> None:
        experiment = setting.experiment
        assert experiment.recipe.stylegan2 is not None
        super().__init__(setting)
        self.gan = experiment.recipe.stylegan2
        self.classes = experiment.architecture.classes
        if self.classes and setting.images.labels is None:
            raise UserError(f"{experiment.dataset_name} has no labels; set stylegan2.conditional to false.")
        torch.manual_seed(self.seed("weights"))
        self.generator = build_generator(experiment.architecture).to(setting.device)
        torch.manual_seed(self.seed("discriminator weights"))
        self.discriminator = build_discriminator(experiment).to(setting.device)
        self.augment = Augment().to(setting.device)
        self.networks = nn.ModuleDict({"generator": self.generator, "discriminator": self.discriminator})
        self.optimizers = {
            "generator": self._optimizer(self.generator, self.gan.path_every),
            "discriminator": self._optimizer(self.discriminator, self.gan.r1_every),
        }
        if self.training.compile:
            self.generator.compile_parts()
            compile_part(self.discriminator)
        self.p = 0.0  # strength of the augmentations
        self.signs = torch.zeros(2, device=setting.device)  # since p was adapted: sum of sign(D(real)), reals
        self.path_mean = torch.zeros((), device=setting.device)
        self.mean_length = self.path_mean  # mean path length of a whole batch
        self.w_seen: list[Tensor] = []  # w of each part of a batch
        self.numbers: dict[str, Tensor | float] = {}  # the last ones, for the log
        if self.gan.ada:
            self.numbers["p"] = self.p

    def _optimizer(self, network: nn.Module, interval: int) -> torch.optim.Optimizer:
        return losses.lazy_adam(network.parameters(), self.training.lr, self.training.betas, interval)

    def step(self, step: int) -> dict[str, Tensor | float]:
        batch = self.training.batch
        reals = self.batch(step)
        number = torch.arange(batch) + step * batch
        self.w_seen.clear()
        gan = self.gan
        self.numbers["loss"] = self._update("generator", self._generator_loss, number)
        w = torch.cat(self.w_seen).mean(0, keepdim=True)
        self.generator.mapping.track(distributed.mean(w))
        if gan.path_length and step % gan.path_every == 0:
            self._update_paths(number[: batch // 2])
        pairs = torch.stack([number, reals], dim=1)  # (batch, 2)
        self.numbers["loss_d"] = self._update("discriminator", self._discriminator_loss, pairs)
        if gan.r1_gamma and step % gan.r1_every == 0:
            self.numbers["r1"] = self._update("discriminator", self._r1_loss, pairs)
        if gan.ada and (step + 1) % gan.ada.interval == 0:
            self._adapt(gan.ada.target, gan.ada.kimg)
        return dict(self.numbers)

    def ema_decay(self, step: int) -> float:
        batch = self.training.batch
        half_life = 1000 * self.gan.ema_kimg
        return losses.ema_decay(batch, step * batch, half_life, self.gan.ema_ramp)

    def extra(self) -> dict[str, Any]:
        return {
            "p": self.p,
            "signs": self.signs,
            "path_mean": self.path_mean,
            "numbers": self.numbers,
        }

    def load_extra(self, extra: dict[str, Any]) -> None:
        self.p = extra["p"]
        self.signs = extra["signs"]
        self.path_mean = extra["path_mean"]
        self.numbers = extra["numbers"]

    def _update(
        self,
        name: str,  # of the network
        loss_of: Callable[[Tensor], Tensor],  # the mean over a part of the batch
        batch: Tensor,
    ) -> Tensor:
        """Update one network while the other is frozen."""
        for other, network in self.networks.items():
            network.requires_grad_(other == name)

        def weighted(part: Tensor, n: int) -> Tensor:
            return loss_of(part) * (len(part) / n)

        return self.descend(name, weighted, batch)

    def _generator_loss(self, number: Tensor) -> Tensor:
        here = sent(number, self.device)
        ws, labels, noise = self._styles("generator", here)
        self.w_seen.append(ws[:, 0].detach())
        with self._reduced():
            images = self.generator.synthesis(ws, noise)
            return losses.generator_loss(self._judged(images, labels, "generator", number))

    def _update_paths(self, number: Tensor) -> None:
        """Update the generator by its path lengths. The penalty of a part needs the mean length of all parts, so every
        part is computed twice."""
        parts = distributed.share(number).chunk(self.training.accumulate)
        if len(parts) > 1:
            lengths = [self._path_lengths(part).detach() for part in parts]
            mean = torch.cat(lengths).mean()
            self.mean_length = distributed.mean(mean)
        self.numbers["path"] = self._update("generator", self._path_loss, number)
        self.path_mean = losses.path_target(self.path_mean, self.mean_length)

    def _path_loss(self, number: Tensor) -> Tensor:
        lengths = self._path_lengths(number)
        mean = lengths.mean()
        value = mean.detach()
        if self.training.accumulate == 1:
            self.mean_length = distributed.mean(value)
        mean = mean + self.mean_length - value  # the value of all parts, the gradient of this part
        target = losses.path_target(self.path_mean, mean)
        penalty = losses.path_penalty(lengths, target)
        return penalty * self.gan.path_length * self.gan.path_every

    def _path_lengths(self, number: Tensor) -> Tensor:
        """Path lengths, in float32 and uncompiled: torch.compile has no second derivatives, and they need precision."""
        number = sent(number, self.device)
        ws, _, noise = self._styles("path", number)
        with torch.compiler.set_stance("force_eager"):
            images = self.generator.synthesis(ws, noise)
            pixels = images[0].numel()
            y = normal(self.seed("path projection"), number, pixels)
            return losses.path_lengths(images, ws, y.view_as(images))

    def _discriminator_loss(self, pairs: Tensor) -> Tensor:
        on_cpu = pairs[:, 0]  # the numbers, where the augmentations need them
        number, reals, real_labels = self._reals(pairs)
        with self._reduced():
            with torch.no_grad():
                ws, labels, noise = self._styles("discriminator", number)
                fakes = self.generator.synthesis(ws, noise)
            fake_logits = self._judged(fakes, labels, "fake", on_cpu)
            real_logits = self._judged(reals, real_labels, "real", on_cpu)
        self._count(real_logits)
        return losses.discriminator_loss(real_logits, fake_logits)

    def _r1_loss(self, pairs: Tensor) -> Tensor:
        """R1, in float32 and uncompiled like `_path_lengths`. The gradient goes through the augmentations."""
        _, reals, labels = self._reals(pairs)
        reals.requires_grad_()
        with torch.compiler.set_stance("force_eager"):
            logits = self._judged(reals, labels, "r1", pairs[:, 0])
            penalty = losses.r1_penalty(logits, reals)
        self._count(logits)
        return penalty * self.gan.r1_gamma * self.gan.r1_every

    def _adapt(self, target: float, kimg: float) -> None:
        total, seen = self.signs.tolist()
        mean = total / seen
        self.p = adapt(self.p, mean, round(seen), target, kimg)
        self.numbers |= {"p": self.p, "sign": mean}
        self.signs.zero_()

    def _count(self, real_logits: Tensor) -> None:
        """Add the signs of all processes to the sums. Every process keeps the same sums, so all have the same state."""
        signs = real_logits.detach().sign()
        world = distributed.world()
        mean = distributed.mean(signs.sum())
        total = world * mean
        count = torch.full_like(total, len(signs) * world)
        self.signs += torch.stack([total, count])

    def _reduced(self) -> torch.autocast | nullcontext[None]:
        if self.training.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)

    def _styles(self, purpose: str, number: Tensor) -> tuple[Tensor, Tensor | None, Noise]:
        """ws of new latents (some of them mixed with the w of other latents), their labels and their noise."""
        seed = self.seed(purpose)
        mapping = self.generator.mapping
        labels = labels_of(seed, number, self.classes)
        w = mapping.map(latents(seed, number, self.dim), labels)
        mixing = None
        if self.gan.mixing:
            z2 = latents(self.seed(f"{purpose} mixing"), number, self.dim)
            mixing = mapping.map(z2, labels), self._crossover(purpose, number)
        return mapping.styles(w, mixing), labels, noise_of(seed, number)

    def _crossover(self, purpose: str, number: Tensor) -> Tensor:
        """The layer from which on each sample has other styles; without mixing, the number of layers."""
        layers = self.generator.synthesis.num_ws
        draws = normal(self.seed(f"{purpose} crossover"), number, 2)
        chance, place = uniform(draws).unbind(1)
        layer = 1 + (place * (layers - 1)).long()
        return torch.where(chance < self.gan.mixing, layer, layers)

    def _reals(self, pairs: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """The numbers of the step's images, the real images and their labels."""
        number = sent(pairs[:, 0], self.device)
        index = pairs[:, 1]
        images = self.images.batch(index, self.device)
        if self.gan.flips:
            draws = normal(self.seed("flip"), number, 1)
            flipped = draws[:, :, None, None] > 0
            images = torch.where(flipped, images.flip(3), images)
        if not self.classes:
            return number, images, None
        assert self.images.labels is not None
        labels = torch.from_numpy(self.images.labels)[index]
        return number, images, sent(labels, self.device)

    def _judged(
        self,
        images: Tensor,
        labels: Tensor | None,
        purpose: str,  # of the random numbers
        number: Tensor,  # of each image, on the CPU
    ) -> Tensor:
        """Logits of the augmented images; at p = 0 the augmentations are the identity."""
        if self.p > 0:
            seed = self.seed(f"augment {purpose}")
            images = self.augment(images, self.p, seed, number)
        logits: Tensor = self.discriminator(images, labels)
        return logits
