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
        experiment = setting.experiment
        assert experiment.recipe.imle is not None
        super().__init__(setting)
        device = self.device
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
        resolution = experiment.dataset.resolution
        embedding = Embedding(self.maps, resolution, self.imle.projection, self.seed("phi"), device)
        self.matching = Matching(self.imle, self.images, embedding, device)
        self.n = self.matching.n
        self.m = self.matching.m
        self.epoch = -1
        self.rounds = 0
        self.matched = torch.zeros(self.n, dtype=torch.int64)  # latent of each image: round * m + number in its pool
        self.age = torch.zeros(self.n, dtype=torch.int64)  # epochs since it was matched
        threshold = self.imle.adaptive.initial if self.imle.adaptive else 0.0
        self.thresholds = torch.full((self.n,), threshold)
        self.latent = self.matched  # the same as `matched`, on the device
        self.z = torch.empty(0)  # (n, dim), the matched latents, on the device
        self.numbers: dict[str, Tensor | float] = {}  # numbers of the last round, for the log

    def step(self, step: int) -> dict[str, Tensor | float]:
        """One step of Adam on the loss of Eq. 1 over this step's pairs."""
        epoch = step * self.training.batch // self.n
        if epoch != self.epoch:
            self._start_epoch(epoch)
        lr = self._lr(step)
        for group in self.optimizers["generator"].param_groups:
            group["lr"] = lr
        loss = self.descend("generator", self._mean_loss, self.batch(step))
        return {"loss": loss, "lr": lr, **self.numbers}

    def ema_decay(self, step: int) -> float:
        ramp = (1 + step) / (self.training.ema_ramp + step)
        return min(self.training.ema, ramp)

    def extra(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "rounds": self.rounds,
            "matched": self.matched,
            "age": self.age,
            "thresholds": self.thresholds,
            "numbers": self.numbers,
        }

    def load_extra(self, extra: dict[str, Any]) -> None:
        self.epoch = extra["epoch"]
        self.rounds = extra["rounds"]
        self.matched = extra["matched"].cpu()
        self.age = extra["age"].cpu()
        self.thresholds = extra["thresholds"].cpu()
        self.numbers = extra["numbers"]
        self._place_latents()

    def _optimizer(self) -> torch.optim.Optimizer:
        training = self.training
        kind = torch.optim.AdamW if training.optimizer == "adamw" else torch.optim.Adam
        parameters = self.generator.parameters()
        return kind(parameters, training.lr, training.betas, weight_decay=training.weight_decay, fused=True)

    def _lr(self, step: int) -> float:
        """Linear warm-up, then multiplication by `decay` every `decay_epochs` epochs."""
        training = self.training
        warm = (step + 1) / max(1, training.warmup)
        lr = training.lr * min(1.0, warm)
        if training.decay_epochs is not None:
            epoch = step * training.batch // self.n
            lr *= training.decay ** (epoch // training.decay_epochs)
        return lr

    def _mean_loss(self, part: Tensor, n: int) -> Tensor:
        """The contribution of a part to the mean loss of n images."""
        return self._losses(part).sum() / n

    def _losses(self, index: Tensor) -> Tensor:
        """LPIPS + 0.1 MSE between each image and the image of its latent (Eq. 1)."""
        real = self.images.batch(index, self.device)
        here = sent(index, self.device)
        noise = noise_of(self.seed("pool"), self.latent[here])
        fake, moved = self._generated(self.z[here], noise, self.imle.fixed_point > 0)
        target = [maps[here] for maps in self.targets] if self.targets else self._maps(real)
        perceptual = distance(self.maps(fake), target)
        pixels = (fake - real).square().mean((1, 2, 3))
        return perceptual + self.imle.mse * pixels + self.imle.fixed_point * moved

    @torch.no_grad()
    def _maps(self, images: Tensor) -> list[Tensor]:
        return cast(list[Tensor], self.maps(images))

    @cached_property
    def targets(self) -> list[Tensor] | None:
        """The maps of all images, so that epochs need not compute them again; None if they need too much memory."""
        chunks = torch.arange(self.n).split(self.imle.chunk)
        images = (self.images.batch(index, self.device) for index in chunks)
        maps = map(self._maps, images)
        return maps_of_all(maps, self.n)

    def _start_epoch(self, epoch: int) -> None:
        """Match the due images again: every `refresh` epochs or, with AdaIMLE's thresholds, when they are learned."""
        self.epoch = epoch
        self.age += 1
        if self.rounds == 0:
            self._match(torch.ones(self.n, dtype=torch.bool))
            self.age[:] = 0
            if self.imle.stagger:  # spread the ages, so that a part of the images is due in each epoch
                self.age = torch.arange(self.n) % self.imle.refresh
            return
        due = self.age >= self.imle.refresh
        adaptive = self.imle.adaptive
        if adaptive:
            losses = self._all_losses()
            due |= (losses <= self.thresholds) & (self.age >= adaptive.staleness)
            self.thresholds[due] = (1 - adaptive.change) * losses[due]
        if due.any():
            self._match(due)
            self.age[due] = 0

    @torch.no_grad()
    def _all_losses(self) -> Tensor:
        """The loss of every image with its present latent; each process computes its share."""
        losses = torch.zeros(self.n, device=self.device)
        for part in distributed.share(torch.arange(self.n)).split(self.imle.chunk):
            losses[part] = self._losses(part)
        return distributed.world() * distributed.mean(losses).cpu()

    @torch.no_grad()
    def _match(self, due: Tensor) -> None:
        """Give the due images their nearest survivors of a new pool."""
        matches = self.matching.round(self.rounds, self._decode)
        self.rounds += 1
        self.matched = torch.where(due, matches.nearest, self.matched)
        self._place_latents()
        distances = matches.distances[due]
        self.numbers = {
            "rounds": self.rounds,
            "epsilon": self.matching.epsilon,
            "rejected": matches.rejected,
            "matched_gap": gap(matches.matched[due], matches.prior),  # 0: training sees the distribution of test time
            "match_mean": float(distances.mean()),
            "match_max": float(distances.max()),
            "distinct_matches": len(self.matched.unique()) / self.n,
        }
        self.numbers |= matches.recalls
        if self.imle.adaptive:
            self.numbers["due"] = float(due.float().mean())

    def _decode(self, first: int) -> Tensor:
        """The images of the chunk of the pool that begins with latent `first`."""
        seed = self.seed("pool")
        index = torch.arange(first, first + self.imle.chunk, device=self.device)
        z = latents(seed, index, self.dim)
        images, _ = self._generated(z, noise_of(seed, index))
        return images

    def _generated(
        self,
        z: Tensor,
        noise: Noise,
        residual: bool = False,  # also the distance of each state from a fixed point
    ) -> tuple[Tensor, Tensor | float]:
        """Images in float32, from a decoder in the recipe's precision."""
        reduced = self.training.precision == "bfloat16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=reduced):
            if residual:
                w, moved = cast(Any, self.generator.mapper).residual(z)
                return self.generator.decode(w, noise).float(), moved
            images: Tensor = self.generator(z, noise=noise)
        return images.float(), 0.0

    def _place_latents(self) -> None:
        """Set the latent of each image, moved a little by noise so that the network does not memorise it."""
        self.latent = self.matched.to(self.device)
        rounds = self.latent // self.m
        number = rounds * self.n + torch.arange(self.n, device=self.device)
        noise = normal(self.seed("perturb"), number, self.dim)
        exact = latents(self.seed("pool"), self.latent, self.dim)
        self.z = exact + self.imle.perturb * noise
