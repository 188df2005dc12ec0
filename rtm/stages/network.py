"""Frozen networks."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

from rtm.config import Config
from rtm.config.experiments import Protocol
from rtm.core.errors import UserError
from rtm.stages.base import Job, Names, Recording, Stage, Values
from rtm.stages.dataset import Dataset

FILES = {"lpips": "vgg16"}  # the weights of a perceptual space, if they have another name
TRAINED = "digit_classifier"  # here, on the digits


class Network(Stage):
    """Fetch the weights of a frozen network (the metrics, the perceptual loss)."""

    parts = ("network",)
    files = {"weights": "weights/{network}.safetensors"}
    reads = {"dataset": "images"}
    folder = "networks"
    keeper = "nobody"

    def every(self, config: Config) -> Iterator[Names]:
        for name in get_args(Protocol.model_fields["pr_extractor"].annotation):
            if name != TRAINED or "digits" in config.params.datasets:  # a trial has no digits
                yield {"network": name}

    def of(self, config: Config, space: str) -> Job:
        """The job of the network behind an extractor or a perceptual space."""
        return self.job(config, network=FILES.get(space, space))

    def needs(self, job: Job) -> Iterable[Job]:
        if job.names["network"] == TRAINED:
            yield Dataset().job(job.config, dataset="digits")

    def values(self, job: Job) -> Values:
        return {"network": job.names["network"]}

    def code(self, job: Job) -> tuple[str, ...]:
        return ("rtm.metrics.digits",) if job.names["network"] == TRAINED else ("rtm.data.networks",)

    def make(self, job: Job, recording: Recording, source: Path | None = None, **options: Any) -> None:
        name = job.names["network"]
        weights = job.outputs["weights"]
        if name == TRAINED:
            from rtm.data.datasets import Images
            from rtm.metrics.digits import train_digit_classifier

            if source:
                raise UserError(f"{name} is trained here on the digits; leave --source out.")
            train_digit_classifier(Images(job.input(Dataset).outputs["images"]), weights)
        else:
            from rtm.data.fetch import fetch_network

            fetch_network(name, weights, job.config.networks / "downloads", source)


def networks_of(config: Config, protocol: str) -> list[Job]:
    """The jobs of a protocol's networks."""
    chosen = config.params.protocols[protocol]
    return [Network().of(config, name) for name in (chosen.extractor, chosen.pr_extractor)]


def weights_of(job: Job) -> dict[str, Path]:
    """The weights that a job reads, by the network's name."""
    networks = (before for before in job.inputs if isinstance(before.stage, Network))
    return {before.names["network"]: before.outputs["weights"] for before in networks}
