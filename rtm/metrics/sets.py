"""The sets of images that `rtm evaluate` compares, given by a name in params/ or by a path."""

from dataclasses import dataclass
from pathlib import Path

from rtm.config import Config
from rtm.config.experiments import Protocol
from rtm.core.errors import UserError
from rtm.core.layout import Layout
from rtm.data.datasets import Images
from rtm.metrics.evaluate import samples_of
from rtm.metrics.images import Pictures, load_images

SPELLINGS = "a dataset (its test images: NAME:test), an experiment (NAME:H8 for a variant), a folder, an .npy or .npz"


@dataclass(frozen=True)
class Named:
    name: str  # as the user wrote it
    images: Pictures
    dataset: str | None = None  # the dataset that the images are from, or that their model was trained on
    training: bool = False  # whether it is the training set of `dataset`


def find_set(config: Config, layout: Layout, word: str, seed: int) -> Named:
    """The set that `word` means. A name in params/ comes before a path; `./NAME` is always a path."""
    name, _, part = word.partition(":")
    if name in config.params.datasets:
        if part not in ("", "train", "test"):
            raise UserError(f"{name} has the parts train and test, not {part!r}; write {name} or {name}:test.")
        if part == "test" and not config.params.datasets[name].test:
            raise UserError(f"{name} has no test images; give images that were not trained on as a path.")
        path = layout.test_images(name) if part == "test" else layout.images(name)
        return Named(word.removesuffix(":train"), Images(path).pixels, name, training=part != "test")
    if name in config.experiments:
        experiment = config.experiment(name)
        variant = part or experiment.variants[0]
        if variant not in experiment.variants:
            raise UserError(f"{name} has no variant {variant!r}; choose one of {', '.join(experiment.variants)}.")
        return Named(word, samples_of(layout, experiment, seed, variant), experiment.dataset_name)
    if word in config.params.foreign:
        foreign = config.params.foreign[word]
        return Named(word, load_images(Path(foreign.samples)), foreign.dataset)
    if not Path(word).exists():
        where = "neither a file or folder here nor a name of params/ at this scale"
        raise UserError(f"{word} is {where}; give {SPELLINGS}.")
    return Named(word, load_images(Path(word)))


def find_reference(
    config: Config, layout: Layout, word: str | None, one: Named, protocol: Protocol, seed: int = 0
) -> Named:
    """The set to compare with. If `word` is a dataset, it is the reference of this dataset. Without a `word`, it is the
    reference of `one`'s dataset. Any other `word` names a set."""
    if word is not None and word not in config.params.datasets:
        return find_set(config, layout, word, seed)
    if (dataset := word or one.dataset) is None:
        raise UserError(f"Say what {one.name} is compared with: `rtm evaluate {one.name} B`, where B is {SPELLINGS}.")
    compared = protocol.compared(dataset)
    return Named(compared, Images(layout.images(compared)).pixels, dataset, training=True)


def training_set(layout: Layout, other: Named) -> Named:
    """The images that could have been copied: the dataset's training images, even if the protocol compares with
    other images."""
    if not (other.training and other.dataset):
        return other
    return Named(other.dataset, Images(layout.images(other.dataset)).pixels, other.dataset, training=True)


def held_out_of(config: Config, layout: Layout, other: Named, protocol: Protocol) -> Named | None:
    """Images that no training on the dataset sees, if there are some."""
    if not (other.training and other.dataset):
        return None
    if config.params.datasets[other.dataset].test and layout.test_images(other.dataset).exists():
        return find_set(config, layout, f"{other.dataset}:test", 0)
    return other if other.name != other.dataset else None
