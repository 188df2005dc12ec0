"""Features of real images."""

from collections.abc import Iterable, Iterator
from typing import Any

from rtm.config import Config
from rtm.config.experiments import Resources
from rtm.stages.base import LIGHT, Job, Names, Recording, Stage, Values
from rtm.stages.dataset import Dataset
from rtm.stages.network import networks_of, weights_of
from rtm.stages.values import extractor_code

READ = {"extractor", "pr_extractor", "resize", "pr_reference"}  # keys of a protocol that change features of real images


class Reference(Stage):
    """Extract the features of a dataset for a protocol; generated images are compared with them."""

    parts = ("dataset", "protocol")
    files = {"features": "features/{dataset}/{protocol}.safetensors"}
    reads = {"dataset": "images", "network": "weights"}
    folder = "shared"
    keeper = "nobody"
    local = False

    def every(self, config: Config) -> Iterator[Names]:
        yield from ()  # only those that another job reads

    def needs(self, job: Job) -> Iterable[Job]:
        compared = job.protocol.compared(job.names["dataset"])
        return [Dataset().job(job.config, dataset=compared), *networks_of(job.config, job.names["protocol"])]

    def values(self, job: Job) -> Values:
        return job.protocol.model_dump(mode="json", include=READ, exclude_none=True)

    def code(self, job: Job) -> tuple[str, ...]:
        return ("rtm.metrics.evaluate", *extractor_code(job.config, job.names["protocol"]))

    def cost(self, job: Job) -> Resources:
        is_small = job.protocol.extractor == "digit_classifier"
        has_gpus = any(experiment.recipe.resources.gpus for experiment in job.config.experiments.values())
        return LIGHT if is_small or not has_gpus else Resources(gpus=1, cpus=8, mem_gb=64, hours=4)

    def make(self, job: Job, recording: Recording, **options: Any) -> None:
        from rtm.metrics.evaluate import reference_of

        images = job.input(Dataset).outputs["images"]
        features = reference_of(images, job.protocol, weights_of(job), job.config.kept_features)
        features.save(job.outputs["features"])
