"""A workspace with a smoke-scale experiment: few images, an untrained classifier, seconds of training."""

from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from support import PARAMS

from rtm.config import Config, Experiment, load
from rtm.config.experiments import Imle
from rtm.data.datasets import Images
from rtm.data.prepare import prepare
from rtm.lineage.recording import recorded
from rtm.methods.base import Setting
from rtm.methods.registry import build_method
from rtm.models.digits import DigitClassifier
from rtm.stages.dataset import Dataset
from rtm.stages.network import Network
from rtm.training.loop import Run


def experiment(name: str, imle: dict[str, object] | None = None, **training: object) -> Experiment:
    chosen = load("smoke", PARAMS).experiments[name]
    changed: dict[str, object] = {"training": chosen.recipe.training.model_copy(update=training)}
    if imle and chosen.recipe.imle:
        changed["imle"] = Imle.model_validate(chosen.recipe.imle.model_dump() | imle)
    return replace(chosen, recipe=chosen.recipe.model_copy(update=changed))


def setting(folder: Path, chosen: Experiment, seed: int = 0) -> Setting:
    images = folder / "images.npy"
    weights = folder / "classifier.safetensors"
    if not images.exists():
        prepare("toy", chosen.dataset, images)
        _save_classifier(weights)
    return Setting(chosen, seed, Images(images), weights, torch.device("cpu"))


def run(folder: Path, chosen: Experiment, name: str = "run") -> Run:
    chosen_setting = setting(folder, chosen)
    return Run(build_method(chosen_setting), chosen_setting, folder / name)


def fetch(config: Config, *datasets: str) -> None:
    """Put the inputs of trainings into this folder: images, and an untrained network."""
    for dataset in ("digits", *datasets):
        job = Dataset().job(config, dataset=dataset)
        with recorded(job):
            prepare(dataset, config.params.datasets[dataset], job.first)
    classifier = Network().job(config, network="digit_classifier")
    with recorded(classifier):
        _save_classifier(classifier.first)


def prepare_inputs(config: Config, dataset: str) -> None:
    """The same inputs without receipts."""
    prepare(dataset, config.params.datasets[dataset], Dataset().path(config, "images", dataset=dataset))
    _save_classifier(Network().path(config, "weights", network="digit_classifier"))


def _save_classifier(weights: Path) -> None:
    weights.parent.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    save_file(DigitClassifier().state_dict(), weights)
