"""RS-IMLE (Sec. 3.1): draw a pool, reject, match every image to a latent, train on the pairs, draw again.

Latent j of pool r is number r * m + j of one endless sequence that depends only on the seed. So one integer for each
image stores the result of a round.
"""

from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn

from rtm.core import distributed
from rtm.core.devices import sent
from rtm.core.randomness import normal
from rtm.methods.base import Method, Setting
from rtm.methods.imle.matching import Matching, gap
from rtm.methods.imle.perceptual import Embedding, distance, load_maps, maps_of_all
from rtm.models.drawing import latents, noise_of
from rtm.models.generator import Generator, build_generator
from rtm.models.layers import Noise


class ImleMethod(Method):
    generator: Generator

    def __init__(self, setting: Setting) -> None:
        experiment, device = setting.experiment, setting.device
        assert experiment.recipe.imle is not None
        super().__init__(setting)
        self.imle = experiment.recipe.imle
        torch.manual_seed(self.seed("weights"))
        self.generator = build_generator(experiment.architecture).to(device)
        if device.type == "cuda":
            self.generator = self.generator.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if self.training.compile:
            self.generator.compile_parts()
        self.networks = nn.ModuleDict({"generator": self.generator})
        self.optimizers = {"generator": self._optimizer()}
        self.maps = load_maps(self.imle.perceptual, setting.weights).to(device)
        resolution, phi_seed = experiment.dataset.resolution, self.seed("phi")
        embedding = Embedding(self.maps, resolution, self.imle.projection, phi_seed, device)
        self.matching = Matching(self.imle, setting.images, embedding, device)
        self.n, self.m = self.matching.n, self.matching.m
        self.epoch, self.rounds = -1, 0
        self.matched = torch.zeros(self.n, dtype=torch.int64)  # latent of each image: round * m + number in its pool
        self.age = torch.zeros(self.n, dtype=torch.int64)  # epochs since it was matched
        self.thresholds = torch.full((self.n,), self.imle.adaptive.initial if self.imle.adaptive else 0.0)
        self.z, self.latent = torch.empty(0), self.matched  # (n, dim), (n): the matched latents, on the device
        self.numbers: dict[str, Tensor | float] = {}  # numbers of the last round, for the log

    def step(self, step: int) -> dict[str, Tensor | float]:
        """One step of Adam on the loss of Eq. 1 over this step's pairs."""
        epoch = step * self.training.batch // self.n
        if epoch != self.epoch:
            self._start_epoch(epoch)
        self._set_lr(step)
        loss = self.descend("generator", lambda part, n: self._losses(part).sum() / n, self.batch(step))
        return {"loss": loss, "lr": self.optimizers["generator"].param_groups[0]["lr"], **self.numbers}

    def ema_decay(self, step: int) -> float:
        return min(self.training.ema, (1 + step) / (self.training.ema_ramp + step))

    STATE = ("epoch", "rounds", "matched", "age", "thresholds", "numbers")

    def extra(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.STATE}

    def load_extra(self, extra: dict[str, Any]) -> None:
        for name in self.STATE:
            value = extra[name]
            setattr(self, name, value.cpu() if isinstance(value, Tensor) else value)
        self._place_latents()

    def _optimizer(self) -> torch.optim.Optimizer:
        kind = torch.optim.AdamW if self.training.optimizer == "adamw" else torch.optim.Adam
        decay = self.training.weight_decay
        return kind(self.generator.parameters(), self.training.lr, self.training.betas, weight_decay=decay, fused=True)

    def _set_lr(self, step: int) -> None:
        """Linear warm-up, then multiplication by `decay` every `decay_epochs` epochs."""
        lr = self.training.lr * min(1.0, (step + 1) / max(1, self.training.warmup))
        if self.training.decay_epochs is not None:
            epoch = step * self.training.batch // self.n
            lr *= self.training.decay ** (epoch // self.training.decay_epochs)
        for group in self.optimizers["generator"].param_groups:
            group["lr"] = lr

    def _losses(self, index: Tensor) -> Tensor:
        """LPIPS + 0.1 MSE between each image and the image of its latent (Eq. 1)."""
        real, here = self.setting.images.batch(index, self.setting.device), sent(index, self.setting.device)
        noise = noise_of(self.seed("pool"), self.latent[here])
        fake, moved = self._generated(self.z[here], noise, self.imle.fixed_point > 0)
        target = [kept[here] for kept in self.targets] if self.targets else self._maps(real)
        pixels = self.imle.mse * (fake - real).square().mean((1, 2, 3))
        return distance(self.maps(fake), target) + pixels + self.imle.fixed_point * moved

    @torch.no_grad()
    def _maps(self, images: Tensor) -> list[Tensor]:
        return cast(list[Tensor], self.maps(images))

    @cached_property
    def targets(self) -> list[Tensor] | None:
        """The maps of all images, so that epochs need not compute them again; None if they need too much memory."""
        pieces = torch.arange(self.n).split(self.imle.chunk)
        return maps_of_all(
            (self._maps(self.setting.images.batch(each, self.setting.device)) for each in pieces), self.n
        )

    def _start_epoch(self, epoch: int) -> None:
        """Match the due images again: every `refresh` epochs or, with AdaIMLE's thresholds, when they are learned."""
        self.age += 1
        due = torch.ones(self.n, dtype=torch.bool) if self.rounds == 0 else self.age >= self.imle.refresh
        adaptive = self.imle.adaptive
        if adaptive and self.rounds:
            losses = self._all_losses()
            due |= (losses <= self.thresholds) & (self.age >= adaptive.staleness)
            self.thresholds[due] = (1 - adaptive.change) * losses[due]
        if due.any():
            self._match(due)
            # if staggered, spread the ages after the first round, so that a part of the images is due in each epoch
            first = self.rounds == 1 and self.imle.stagger
            self.age[due] = torch.arange(self.n) % self.imle.refresh if first else 0
        self.epoch = epoch

    @torch.no_grad()
    def _all_losses(self) -> Tensor:
        """The loss of every image with its present latent; each process computes its share."""
        losses = torch.zeros(self.n, device=self.setting.device)
        for part in distributed.share(torch.arange(self.n)).split(self.imle.chunk):
            losses[part] = self._losses(part)
        return distributed.world() * distributed.mean(losses).cpu()

    @torch.no_grad()
    def _match(self, due: Tensor) -> None:
        """Give the due images their nearest survivors of a new pool."""
        found = self.matching.round(self.rounds, self._decode)
        self.rounds += 1
        self.matched = torch.where(due, found.nearest, self.matched)
        self._place_latents()
        self.numbers = {
            "rounds": self.rounds,
            "epsilon": self.matching.epsilon,
            "rejected": found.rejected,
            "matched_gap": gap(found.matched[due], found.prior),  # 0: training sees the same distribution as test time
            "match_mean": float(found.distances[due].mean()),
            "match_max": float(found.distances[due].max()),
            "distinct_matches": len(self.matched.unique()) / self.n,
        }
        if self.imle.adaptive:
            self.numbers["due"] = float(due.float().mean())

    def _decode(self, first: int) -> Tensor:
        """The images of the chunk of the pool that begins with latent `first`."""
        index = torch.arange(first, first + self.imle.chunk, device=self.setting.device)
        z = latents(self.seed("pool"), index, self.setting.experiment.recipe.dim)
        return self._generated(z, noise_of(self.seed("pool"), index))[0]

    def _generated(self, z: Tensor, noise: Noise, residual: bool = False) -> tuple[Tensor, Tensor | float]:
        """Images in float32, from a decoder in the recipe's precision. Also, with `residual`, the distance of each
        state from a fixed point."""
        reduced = self.training.precision == "bfloat16"
        with torch.autocast(self.setting.device.type, torch.bfloat16, enabled=reduced):
            if residual:
                w, moved = cast(Any, self.generator.mapper).residual(z)
                return self.generator.decode(w, noise).float(), moved
            images: Tensor = self.generator(z, noise=noise)
        return images.float(), 0.0

    def _place_latents(self) -> None:
        """Set the latent of each image, moved a little by noise so that the network does not memorise it."""
        self.latent, dim = self.matched.to(self.setting.device), self.setting.experiment.recipe.dim
        matching = self.latent // self.m * self.n + torch.arange(self.n, device=self.setting.device)
        moved = normal(self.seed("perturb"), matching, dim)  # different for each round and image
        self.z = latents(self.seed("pool"), self.latent, dim) + self.imle.perturb * moved
