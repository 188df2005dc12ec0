"""Pictures for figures."""

from collections.abc import Iterable, Iterator
from typing import Any

from rtm.config import Config
from rtm.config.experiments import Protocol, Resources
from rtm.core.errors import UserError
from rtm.stages.base import Job, Names, Recording, Stage, Values
from rtm.stages.dataset import Dataset
from rtm.stages.network import Network, weights_of
from rtm.stages.train import Train
from rtm.stages.values import architecture, extractor_code, generator_code, measuring


class Gallery(Stage):
    """Generate the few images that figures show: samples, interpolations, neighbours of training images."""

    parts = ("experiment", "seed")
    files = {"images": "galleries/{experiment}/seed{seed}.npz"}
    reads = {"train": "checkpoint", "dataset": "images", "network": "weights"}
    keeper = "dvc"
    local = False

    def every(self, config: Config) -> Iterator[Names]:
        """One of the first seed of each experiment."""
        for experiment in config.experiments.values():
            yield {"experiment": experiment.name, "seed": experiment.seeds[0]}

    def needs(self, job: Job) -> Iterable[Job]:
        experiment = job.experiment
        yield Train().job(job.config, experiment=experiment.name, seed=job.seed)
        yield Dataset().job(job.config, dataset=experiment.dataset_name)
        yield Network().of(job.config, _protocol(job).pr_extractor)

    def values(self, job: Job) -> Values:
        return architecture(job.experiment) | {"seed": job.seed}

    def code(self, job: Job) -> tuple[str, ...]:
        networks = extractor_code(job.config, job.experiment.recipe.evaluation.protocols[0])
        return ("rtm.metrics.gallery", *networks, *generator_code(job.experiment))

    def cost(self, job: Job) -> Resources:
        return measuring(job.experiment)

    def make(self, job: Job, recording: Recording, **options: Any) -> None:
        import numpy as np

        from rtm.core.files import atomic
        from rtm.metrics.gallery import gallery

        images = job.input(Dataset).outputs["images"]
        checkpoint = job.input(Train).outputs["checkpoint"]
        arrays = gallery(job.experiment, job.seed, checkpoint, images, _protocol(job), weights_of(job))
        with atomic(job.outputs["images"]) as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]


def _protocol(job: Job) -> Protocol:
    """The experiment's first protocol, whose network finds neighbours."""
    if job.seed != (shown := job.experiment.seeds[0]):
        raise UserError(f"Figures show only seed {shown} of {job.experiment.name}; make the gallery of this seed.")
    return job.config.params.protocols[job.experiment.recipe.evaluation.protocols[0]]
