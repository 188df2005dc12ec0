"""Sets of images by name or by path, and the reference of each set."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.demo_images import Demo
from support.images import pixels

from rtm.core.errors import UserError
from rtm.metrics.sets import Named, find_reference, find_set, held_out_of, training_set


def test_the_seed_is_that_of_both_experiments(demo: Demo) -> None:
    config, layout, _ = demo
    for seed in (0, 1):
        folder = layout.samples("digits_rtm", seed)
        folder.mkdir(parents=True)
        np.save(folder / "native.npy", pixels(170, seed=20 + seed))
    one = find_set(config, layout, "digits_rtm", 1)
    other = find_reference(config, layout, "digits_rtm", one, config.params.protocols["digits"], 1)
    np.testing.assert_array_equal(other.images[0:170], pixels(170, seed=21))


def test_a_name_comes_before_a_path_of_that_name(demo: Demo) -> None:
    config, layout, trained_on = demo
    Path("digits").mkdir()
    Image.fromarray(pixels(1, seed=9)[0]).save("digits/0.png")
    named, path = (find_set(config, layout, word, 0) for word in ("digits", "./digits"))
    np.testing.assert_array_equal(named.images[0:200], trained_on)
    np.testing.assert_array_equal(path.images[0:1], pixels(1, seed=9))
    assert (named.dataset, named.training, path.dataset, path.training) == ("digits", True, None, False)


def test_a_variant_is_named_behind_its_experiment(demo: Demo) -> None:
    config, layout, _ = demo
    folder = layout.samples("digits_rtm", 0)
    folder.mkdir(parents=True)
    np.save(folder / "native.npy", pixels(170, seed=20))
    for word in ("digits_rtm", "digits_rtm:native"):
        found = find_set(config, layout, word, 0)
        np.testing.assert_array_equal(found.images[0:170], pixels(170, seed=20))
        assert (found.name, found.dataset, found.training) == (word, "digits300", False)


def test_a_set_is_compared_with_what_it_was_trained_on(demo: Demo) -> None:
    """If the protocol names another set, that set is the reference. The training set of a path is unknown."""
    config, layout, _ = demo
    protocol = config.params.protocols["digits"]
    fakes = find_set(config, layout, "fakes.npy", 0)
    of_few = Named("some", fakes.images, "digits300")
    found = find_reference(config, layout, None, of_few, protocol)
    assert (found.name, found.dataset, found.training) == ("digits_rest", "digits300", True)
    assert not find_reference(config, layout, "real.npy", of_few, protocol).training
    with pytest.raises(UserError, match=r"Say what fakes.npy is compared with: `rtm evaluate fakes.npy B`"):
        find_reference(config, layout, None, fakes, protocol)


def test_copies_are_looked_for_in_training_images_and_held_out_are_others(demo: Demo) -> None:
    config, layout, _ = demo
    protocol = config.params.protocols["digits"]
    fakes = find_set(config, layout, "fakes.npy", 0)

    def roles(word: str) -> tuple[str, str | None]:
        other = find_reference(config, layout, word, fakes, protocol)
        unseen = held_out_of(config, layout, other, protocol)
        return training_set(layout, other).name, unseen.name if unseen else None

    assert roles("digits300") == ("digits300", "digits_rest")
    assert roles("digits") == ("digits", None)
    assert roles("real.npy") == ("real.npy", None)
