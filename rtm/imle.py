"""RS-IMLE (Sec. 3.1): draw a pool, reject, match every image to a latent, train on the pairs, draw again.

Pool latent j of round r is a function of (seed, r, j), so a round is remembered as one integer for each image.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from rtm import distributed
from rtm.config import Experiment
from rtm.data.datasets import to_unit
from rtm.data.sampler import batch_of
from rtm.decoders import Decoder
from rtm.generator import Noise, build_mapper, latents, noise_of
from rtm.mappers import RTM
from rtm.neighbours import StreamingMatch
from rtm.perceptual import Embedding, distance, load_maps
from rtm.progress import track
from rtm.randomness import normal, seed_of
from rtm.train import Method, Setting


class Generator(nn.Module):
    """Mapper and decoder of RS-IMLE: z -> w -> image (Sec. 3.2)."""

    def __init__(self, mapper: nn.Module, decoder: Decoder) -> None:
        super().__init__()
        self.mapper, self.decoder = mapper, decoder

    def forward(
        self, z: Tensor, labels: Tensor | None = None, noise: Noise | None = None, H: int | None = None
    ) -> Tensor:
        w = self.mapper(z) if H is None else self.mapper(z, H=H)
        images: Tensor = self.decoder(w, noise)
        return images

    def compile_parts(self) -> None:
        """The recursive block and the decoder: the whole recursion would compile for minutes and run no faster."""
        if isinstance(self.mapper, RTM):
            self.mapper.compile_block()
        self.decoder.compile()


def build_generator(experiment: Experiment) -> Generator:
    assert experiment.decoder is not None
    dim = experiment.recipe.dim
    return Generator(build_mapper(experiment.mapper, dim), Decoder(dim, **experiment.decoder.model_dump()))


def build_method(setting: Setting) -> "ImleMethod":
    return ImleMethod(setting)


class ImleMethod(Method):
    generator: Generator

    def __init__(self, setting: Setting) -> None:
        experiment, device = setting.experiment, setting.device
        assert experiment.recipe.imle is not None and setting.weights is not None
        self.setting, self.imle, self.training = setting, experiment.recipe.imle, experiment.recipe.training
        torch.manual_seed(seed_of(setting.seed, "weights"))
        self.generator = build_generator(experiment).to(device)
        if device.type == "cuda":
            self.generator = self.generator.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if self.training.compile:
            self.generator.compile_parts()
        self.networks = nn.ModuleDict({"generator": self.generator})
        self.optimizers = {"generator": self._optimizer()}
        self.maps = load_maps(self.imle.perceptual, setting.weights).to(device)
        self.embedding = Embedding(
            self.maps, experiment.dataset.resolution, self.imle.projection, seed_of(setting.seed, "phi"), device
        )
        self.data_features: Tensor | None = None  # (n, d_phi), made when first needed
        self.round = -1
        self.matched = torch.zeros(len(setting.images), dtype=torch.int64)  # pool index of each image
        self.z = torch.empty(0)  # (n, dim): the matched latents
        self.round_numbers: dict[str, Tensor | float] = {}

    def step(self, step: int) -> dict[str, Tensor | float]:
        """One step of Adam on the loss of Eq. 1 over this step's pairs."""
        due = self._round_of(step)
        if due != self.round:
            self._start_round(due)
        self._set_lr(step)
        batch = batch_of(self.setting.seed, step, self.training.batch, len(self.setting.images))
        parts = distributed.share(batch).chunk(self.training.accumulate)
        optimizer = self.optimizers["generator"]
        optimizer.zero_grad()
        total = torch.zeros((), device=self.setting.device)
        for part in parts:
            loss = self._loss(part) / len(parts)
            loss.backward()
            total += loss.detach()
        distributed.average_gradients([self.generator])
        optimizer.step()
        return {"loss": distributed.mean(total), "lr": optimizer.param_groups[0]["lr"], **self.round_numbers}

    def ema_decay(self, step: int) -> float:
        return self.training.ema

    def extra(self) -> dict[str, Any]:
        return {"round": self.round, "matched": self.matched, "numbers": self.round_numbers}

    def load_extra(self, extra: dict[str, Any]) -> None:
        self.round, self.matched, self.round_numbers = extra["round"], extra["matched"].cpu(), extra["numbers"]
        self.z = self._matched_latents()

    def _optimizer(self) -> torch.optim.Optimizer:
        kind = torch.optim.AdamW if self.training.optimizer == "adamw" else torch.optim.Adam
        decay = self.training.weight_decay
        return kind(self.generator.parameters(), self.training.lr, self.training.betas, weight_decay=decay, fused=True)

    def _set_lr(self, step: int) -> None:
        """Linear warm-up, then a factor every so many epochs."""
        lr = self.training.lr * min(1.0, (step + 1) / max(1, self.training.warmup))
        if self.training.decay_epochs is not None:
            epoch = step * self.training.batch // len(self.setting.images)
            lr *= self.training.decay ** (epoch // self.training.decay_epochs)
        for group in self.optimizers["generator"].param_groups:
            group["lr"] = lr

    def _round_of(self, step: int) -> int:
        return step * self.training.batch // (self.imle.refresh * len(self.setting.images))

    def _seed(self, purpose: str, number: int) -> int:
        return seed_of(self.setting.seed, purpose, number)

    def _loss(self, index: Tensor) -> Tensor:
        """LPIPS + 0.1 MSE between images and what their latents give (Eq. 1)."""
        device = self.setting.device
        real = self.setting.images.batch(index, device)
        noise = noise_of(self._seed("pool", self.round), self.matched[index].to(device))
        with torch.autocast(device.type, torch.bfloat16, enabled=self.training.precision == "bfloat16"):
            fake: Tensor = self.generator(self.z[index.to(device)], noise=noise)
        fake = fake.float()
        with torch.no_grad():
            target = self.maps(real)
        perceptual = distance(self.maps(fake), target)
        pixels = (fake - real).square().mean((1, 2, 3))
        return (perceptual + self.imle.mse * pixels).mean()

    def _matched_latents(self) -> Tensor:
        """The pool latent of each image, moved a little so that none is learned by heart (n, dim)."""
        device, dim = self.setting.device, self.setting.experiment.recipe.dim
        z = latents(self._seed("pool", self.round), self.matched.to(device), dim)
        moved = normal(self._seed("perturb", self.round), torch.arange(len(z), device=device), dim)
        return z + self.imle.perturb * moved

    @torch.no_grad()
    def _start_round(self, number: int) -> None:
        """Decode the pool chunk by chunk, each process its share, and keep each image's nearest survivor."""
        if self.data_features is None:
            self.data_features = self._embed_data()
        self.round = number
        match = StreamingMatch(self.data_features, self.imle.epsilon)
        images = len(self.setting.images)
        chunks = math.ceil(self.imle.pool * images / self.imle.chunk)
        mine = range(distributed.rank(), chunks, distributed.world())
        for chunk in mine:
            match.update(self.embedding(self._decode_pool(chunk)), chunk * self.imle.chunk)
        self.matched, distances = _merged(match)
        self.z = self._matched_latents()
        self.round_numbers = {
            "round": number,
            "rejected": float(distributed.mean(self._share(match))),
            "match_mean": float(distances.mean()),
            "match_max": float(distances.max()),
            "distinct": len(self.matched.unique()) / images,
        }

    def _share(self, match: StreamingMatch) -> Tensor:
        """Of the pool that was rejected."""
        return torch.tensor(match.rejected / max(1, match.seen), device=self.setting.device)

    def _decode_pool(self, chunk: int) -> Tensor:
        index = torch.arange(self.imle.chunk, device=self.setting.device) + chunk * self.imle.chunk
        seed = self._seed("pool", self.round)
        z = latents(seed, index, self.setting.experiment.recipe.dim)
        images: Tensor = self.generator(z, noise=noise_of(seed, index))
        return images.float()

    def _embed_data(self) -> Tensor:
        pixels, step = self.setting.images.pixels, self.imle.chunk
        starts = range(0, len(pixels), step)
        parts = [
            self.embedding(to_unit(torch.tensor(pixels[at : at + step]).to(self.setting.device).permute(0, 3, 1, 2)))
            for at in track(starts, "features of the data", len(starts))
        ]
        return torch.cat(parts)


def _merged(match: StreamingMatch) -> tuple[Tensor, Tensor]:
    """Each image's nearest survivor over all processes; the lower index where two are equally near."""
    index, squared = torch.stack(distributed.gather(match.index)), torch.stack(distributed.gather(match.squared))
    if bool((index < 0).all()):
        match.result()  # raises: everything was rejected, here and elsewhere
    order = torch.argsort(index, dim=0)
    best = torch.gather(squared, 0, order).argmin(0, keepdim=True)
    chosen = torch.gather(order, 0, best)
    return torch.gather(index, 0, chosen)[0].cpu(), torch.gather(squared, 0, chosen)[0].sqrt().cpu()
