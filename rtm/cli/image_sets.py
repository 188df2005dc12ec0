"""The sets of images that `rtm evaluate` compares, given by a name in params/ or by a path."""

from pathlib import Path

from rtm.cli.recorded import receipt_of
from rtm.config import Config
from rtm.config.experiments import Protocol
from rtm.core.devices import best_device
from rtm.core.errors import UserError
from rtm.data.datasets import Images
from rtm.metrics.compare import ImageSource
from rtm.metrics.images import load_images
from rtm.metrics.sampling import Samples
from rtm.models.checkpoint import load_generator
from rtm.stages.dataset import Dataset
from rtm.stages.train import Train

SPELLINGS = "a dataset (its test images: NAME:test), an experiment (NAME:H8 for a variant), a folder, an .npy or .npz"


def find_set(config: Config, word: str, seed: int) -> ImageSource:
    """The set that `word` means. A name in params/ comes before a path; `./NAME` is always a path."""
    name, _, part = word.partition(":")
    if name in config.params.datasets:
        return _of_dataset(config, word, name, part)
    if name in config.experiments:
        return _of_experiment(config, word, name, part, seed)
    if not Path(word).exists():
        where = "neither a file or folder here nor a name of params/ at this scale"
        raise UserError(f"{word} is {where}; give {SPELLINGS}.")
    return ImageSource(word, load_images(Path(word)))


def _of_dataset(config: Config, word: str, name: str, part: str) -> ImageSource:
    if part not in ("", "train", "test"):
        raise UserError(f"{name} has the parts train and test, not {part!r}; write {name} or {name}:test.")
    if part != "test":
        return _training(config, name, name)
    if not config.params.datasets[name].test:
        raise UserError(f"{name} has no test images; give images that were not trained on as a path.")
    return ImageSource(word, Images(Dataset().path(config, "test", dataset=name)).pixels, name)


def _training(config: Config, name: str, dataset: str) -> ImageSource:
    """The images of the dataset `name`, as the training images of `dataset`."""
    return ImageSource(name, Images(Dataset().path(config, "images", dataset=name)).pixels, dataset, training=True)


def _of_experiment(config: Config, word: str, name: str, variant: str, seed: int) -> ImageSource:
    """All samples of one variant, drawn from the checkpoint when they are read."""
    experiment = config.experiment(name)
    variant = variant or experiment.variants[0]
    if variant not in experiment.variants:
        raise UserError(f"{name} has no variant {variant!r}; choose one of {', '.join(experiment.variants)}.")
    job = Train().job(config, experiment=name, seed=seed)
    if job.first.exists():
        receipt_of(job, job.first)
    generator = load_generator(experiment.architecture, job.first, best_device())
    folder = config.kept_features.parent
    samples = Samples(generator, experiment, seed, variant, experiment.recipe.evaluation.samples, folder)
    return ImageSource(word, samples, experiment.dataset_name)


def find_reference(
    config: Config,
    word: str | None,  # a dataset: its reference; None: the reference of `one`'s dataset; else a set
    one: ImageSource,  # the images that are measured
    protocol: Protocol,
    seed: int = 0,  # of an experiment
) -> ImageSource:
    """The set to compare with."""
    if word is not None and word not in config.params.datasets:
        return find_set(config, word, seed)
    dataset = word or one.dataset
    if dataset is None:
        raise UserError(f"Say what {one.name} is compared with: `rtm evaluate {one.name} B`, where B is {SPELLINGS}.")
    return _training(config, protocol.compared(dataset), dataset)


def training_set(config: Config, reference: ImageSource) -> ImageSource:
    """The images that could have been copied: the dataset's training images, even if the protocol compares with
    other images."""
    if not (reference.training and reference.dataset):
        return reference
    return _training(config, reference.dataset, reference.dataset)


def held_out_of(config: Config, reference: ImageSource) -> ImageSource | None:
    """Images that no training on the dataset sees, if there are some."""
    dataset = reference.dataset
    if not (reference.training and dataset):
        return None
    if config.params.datasets[dataset].test and Dataset().path(config, "test", dataset=dataset).exists():
        return find_set(config, f"{dataset}:test", 0)
    return reference if reference.name != dataset else None
