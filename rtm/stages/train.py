"""Trainings."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rtm.config import Experiment
from rtm.config.experiments import Resources
from rtm.methods.registry import method_class
from rtm.stages.base import Job, Recording, Stage, Values
from rtm.stages.dataset import Dataset
from rtm.stages.network import FILES, Network, networks_of, weights_of
from rtm.stages.reference import Reference
from rtm.stages.values import architecture, extractor_code, generator_code, protocol, source

UNREAD = {"save_every", "grid_every", "loggers"}  # they change no result


class Train(Stage):
    """Train one seed of an experiment; the same command resumes it."""

    parts = ("experiment", "seed")
    files = {
        "checkpoint": "checkpoints/{experiment}/seed{seed}.safetensors",
        "curve": "results/{experiment}/training/seed{seed}.csv",
    }
    reads = {"dataset": "images", "network": "weights", "reference": "features"}
    keeper = "dvc"
    compared = {"curve": "plots"}
    apart = ("curve",)  # it has times, which differ in every run
    local = False

    def needs(self, job: Job) -> Iterable[Job]:
        experiment, config = job.experiment, job.config
        recipe = experiment.recipe
        yield Dataset().job(config, dataset=experiment.dataset_name)
        if recipe.imle and isinstance(recipe.imle.perceptual, str):
            yield Network().of(config, recipe.imle.perceptual)
        if selecting := selection_protocol(experiment):
            yield Reference().job(config, dataset=experiment.dataset_name, protocol=selecting)
            yield from networks_of(config, selecting)
        if recipe.training.watch:
            yield Network().of(config, recipe.training.watch.extractor)

    def values(self, job: Job) -> Values:
        experiment = job.experiment
        recipe = experiment.recipe
        values = architecture(experiment) | {
            "seed": job.seed,
            "steps": experiment.steps(),
            "training": recipe.training.model_dump(mode="json", exclude=UNREAD),
        }
        if recipe.imle:
            values["imle"] = recipe.imle.model_dump(mode="json")
            if not isinstance(recipe.imle.perceptual, str):
                values["imle"]["perceptual"] |= source(recipe.imle.perceptual.kind)
        if recipe.method:
            values["method"] = recipe.method.model_dump(mode="json") | source(method_class(experiment))
        if selecting := selection_protocol(experiment):
            values["selection"] = protocol(job.config, selecting, experiment.dataset_name)
        return values

    def code(self, job: Job) -> tuple[str, ...]:
        """What measures during the training counts only if it selects the weights."""
        experiment = job.experiment
        method = method_class(experiment)
        ours = (method,) if method.startswith("rtm.") else ()
        selecting = selection_protocol(experiment)
        measuring = ("rtm.training.monitor", *extractor_code(job.config, selecting)) if selecting else ()
        return ("rtm.training.assembly", *ours, *generator_code(experiment), *measuring)

    def cost(self, job: Job) -> Resources:
        return job.experiment.recipe.resources

    def make(self, job: Job, recording: Recording, gpus: int | None = None, **options: Any) -> None:
        from rtm.data.parts import check_parts
        from rtm.lineage.begun import begin
        from rtm.training.assembly import TrainingTask
        from rtm.training.folder import history_of
        from rtm.training.launch import launch, on_fewer
        from rtm.training.monitor import looks, selection

        experiment = job.experiment if gpus is None else on_fewer(job.experiment, gpus)
        if "RANK" not in os.environ:  # each of several processes would say the same
            protocols = job.config.protocols(experiment)
            check_parts(experiment.name, protocols, lambda name: Network().of(job.config, name).first)
        weights = weights_of(job)
        watch = None
        if selecting := selection_protocol(experiment):
            reference = job.input(Reference).outputs["features"]
            watch = selection(job.config.params.protocols[selecting], reference, weights)
        elif experiment.recipe.training.watch:
            watch = looks(weights)
        training = TrainingTask(
            experiment,
            job.seed,
            images=job.input(Dataset).outputs["images"],
            weights=perceptual_weights(experiment, weights),
            watch=watch,
            folder=begin(job, recording),
            fingerprint=recording.fingerprint,
            **job.outputs,
        )
        launch(training)
        history = history_of(training.folder)
        assert history is not None
        recording.facts |= history.facts()
        parts = experiment.recipe.training.accumulate
        recording.facts |= {"accumulated": parts} if parts > 1 else {}


def selection_protocol(experiment: Experiment) -> str | None:
    """The protocol by which FID selects the weights during the training (App. F)."""
    gan = experiment.recipe.stylegan2
    return gan.select_protocol if gan and gan.select == "best" else None


def perceptual_weights(experiment: Experiment, weights: Mapping[str, Path]) -> Path | None:
    """The weights of the perceptual loss, among those of a job."""
    imle = experiment.recipe.imle
    space = imle.perceptual if imle else None
    return weights[FILES.get(space, space)] if isinstance(space, str) else None
