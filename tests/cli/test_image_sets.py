"""Sets of images by name or by path, and the reference of each set."""

from dataclasses import replace
from pathlib import Path

import pytest
from numpy.testing import assert_array_equal
from PIL import Image
from support import checkpoints, fake_results
from support.demo_images import Demo, prepared
from support.images import pixels

from rtm.cli.image_sets import find_reference, find_set, held_out_of, training_set
from rtm.config import Config
from rtm.core.errors import UserError
from rtm.metrics.compare import ImageSource
from rtm.metrics.sampling import Samples
from rtm.stages.train import Train


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Demo:
    """The digits of the demo; their folder is the current one."""
    images = prepared(tmp_path)
    monkeypatch.chdir(tmp_path)
    return images


@pytest.fixture
def trained(demo: Demo) -> Config:
    """Two seeds of an experiment, untrained, with few samples."""
    experiment = demo.config.experiments["digits_rtm"]
    evaluation = experiment.recipe.evaluation.model_copy(update={"samples": 20})
    few = replace(experiment, recipe=experiment.recipe.model_copy(update={"evaluation": evaluation}))
    for seed in (0, 1):
        job = Train().job(demo.config, experiment="digits_rtm", seed=seed)
        checkpoints.write(job.first, few)
        fake_results.sign(Path(), job)
    return replace(demo.config, experiments={**demo.config.experiments, "digits_rtm": few})


def test_samples_of_other_weights_than_those_of_the_receipt_are_refused(trained: Config) -> None:
    job = Train().job(trained, experiment="digits_rtm", seed=1)
    checkpoints.write(job.first, trained.experiments["digits_rtm"], perturbed=False)
    with pytest.raises(UserError, match=r"seed1\.safetensors is not the file of its receipt; bring it back"):
        find_set(trained, "digits_rtm:H4", 1)


def test_samples_are_drawn_from_the_checkpoint_of_the_seed_and_the_variant(trained: Config) -> None:
    protocol = trained.params.protocols["digits"]
    one = find_set(trained, "digits_rtm:H4", 1)
    other = find_reference(trained, "digits_rtm", one, protocol, 1)
    assert isinstance(one.images, Samples)
    assert isinstance(other.images, Samples)
    assert (one.images.variant, other.images.variant) == ("H4", "native")
    assert one.images.seed == other.images.seed == 1
    assert (one.name, one.dataset, one.training, len(one.images)) == ("digits_rtm:H4", "digits300", False, 20)
    assert one.images[3:5].shape == (2, 8, 8, 3)


def test_a_name_comes_before_a_path_of_that_name(demo: Demo) -> None:
    Path("digits").mkdir()
    Image.fromarray(pixels(1, seed=9)[0]).save("digits/0.png")
    named = find_set(demo.config, "digits", 0)
    path = find_set(demo.config, "./digits", 0)
    assert_array_equal(named.images[0:200], demo.images)
    assert_array_equal(path.images[0:1], pixels(1, seed=9))
    assert (named.dataset, named.training, path.dataset, path.training) == ("digits", True, None, False)


def test_a_set_is_compared_with_what_it_was_trained_on(demo: Demo) -> None:
    """If the protocol names another set, that set is the reference. The training set of a path is unknown."""
    config = demo.config
    protocol = config.params.protocols["digits"]
    fakes = find_set(config, "fakes.npy", 0)
    of_few = ImageSource("some", fakes.images, "digits300")
    reference = find_reference(config, None, of_few, protocol)
    assert (reference.name, reference.dataset, reference.training) == ("digits_rest", "digits300", True)
    assert not find_reference(config, "real.npy", of_few, protocol).training
    with pytest.raises(UserError, match=r"Say what fakes.npy is compared with: `rtm evaluate fakes.npy B`"):
        find_reference(config, None, fakes, protocol)


@pytest.mark.parametrize(
    ("word", "train", "held_out"),
    [("digits300", "digits300", "digits_rest"), ("digits", "digits", None), ("real.npy", "real.npy", None)],
)
def test_copies_are_looked_for_in_training_images_and_held_out_are_others(
    demo: Demo, word: str, train: str, held_out: str | None
) -> None:
    fakes = find_set(demo.config, "fakes.npy", 0)
    reference = find_reference(demo.config, word, fakes, demo.config.params.protocols["digits"])
    unseen = held_out_of(demo.config, reference)
    assert training_set(demo.config, reference).name == train
    assert (unseen and unseen.name) == held_out


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("nothing", "nothing is neither a file or folder here nor a name"),
        ("digits:test", "digits has no test images"),
        ("digits:valid", "digits has the parts train and test, not 'valid'"),
        ("digits_rtm:H99", "digits_rtm has no variant 'H99'; choose one of native"),
        ("digits_rtm", r"checkpoints/digits_rtm/seed0\.safetensors is missing; train it"),
    ],
)
def test_a_word_without_a_meaning_is_refused(demo: Demo, word: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        find_set(demo.config, word, 0)
