"""A prepared dataset is complete and always identical; otherwise the preparation fails."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.archives import (
    cifar_batches,
    noise,
    write_tar,
)
from support.datasets import DATASETS, left, small, toy

from rtm.config.experiments import Split
from rtm.core.errors import UserError
from rtm.core.files import digest
from rtm.core.pixels import to_pixels
from rtm.data.check import problems
from rtm.data.datasets import Images
from rtm.data.fetch import fetch_dataset
from rtm.data.prepare import prepare

DIGITS = DATASETS["digits"]


def test_digits_are_the_real_ones_to_the_byte(images: Path) -> None:
    prepare("digits", DIGITS, images)
    assert DIGITS.sha256 == digest(images)
    held = Images(images)
    assert held.pixels.shape == (1797, 8, 8, 3)
    assert held.pixels.max() == 255
    assert held.labels is not None
    assert held.labels[:10].tolist() == list(range(10))
    batch = held.batch(torch.tensor([3, 1]), torch.device("cpu"))
    assert batch.shape == (2, 3, 8, 8)
    assert -1 <= batch.min() < batch.max() <= 1
    assert torch.equal(to_pixels(batch)[1].permute(1, 2, 0), torch.from_numpy(held.pixels[1].copy()))


def test_a_wrong_test_split_leaves_everything_as_it_was(images: Path, tmp_path: Path) -> None:
    files = cifar_batches(noise(10, 3072), [0] * 10)
    source = write_tar(tmp_path / "x.tar.gz", files)
    prepare("cifar10", small("cifar10", 10), images, source)
    before = {path.name: digest(path) for path in images.parent.iterdir()}
    other = write_tar(tmp_path / "y.tar.gz", cifar_batches(noise(10, 3072, seed=1), [0] * 10))
    for split in (Split(count=3), Split(count=2, sha256="0" * 64)):
        with pytest.raises(UserError, match=r"says 3|test_images\.npy of cifar10 came out with sha256"):
            prepare("cifar10", small("cifar10", 10, test=split), images, other)
        assert {path.name: digest(path) for path in images.parent.iterdir()} == before
    images.with_name("test_images.npy").write_bytes(images.read_bytes())
    assert "test_images.npy has sha256" in "; ".join(problems(small("cifar10", 10), images))


def test_the_same_input_gives_the_same_files(images: Path, tmp_path: Path, three: Path) -> None:
    folders = [tmp_path / "data/one", tmp_path / "data/two"]
    for folder in folders:
        fetch_dataset("toy", toy(), folder / "images.npy", tmp_path / "downloads", three)
    one, two = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
    assert one == two
    assert set(one) == {"images.npy", "meta.json"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": 5}, "holds 3 images, but params/datasets.yaml says 5"),
        ({"count": 2}, "holds 3 images, but params/datasets.yaml says 2"),
        ({"resolution": 4}, r"\.png is 8 x 8 px, not 4 x 4; write `resize: lanczos`"),
        ({"classes": 2}, "has images in 1 folders, not 2 classes"),
        ({"sha256": "0" * 64}, "came out with sha256 .* of params/datasets.yaml; get the original"),
        ({"kind": "cifar10"}, "does not hold the batches of CIFAR-10"),
    ],
)
def test_a_wrong_source_leaves_everything_as_it_was(
    images: Path,
    three: Path,
    changes: dict[str, object],
    message: str,
) -> None:
    with pytest.raises(UserError, match=message):
        prepare("toy", toy(**changes), images, three)
    assert left(images) == []
    prepare("toy", toy(), images, three)
    before = digest(images)
    with pytest.raises(UserError, match=message):
        prepare("toy", toy(**changes), images, three)
    assert left(images) == ["images.npy", "meta.json"]
    assert digest(images) == before


def test_a_full_disk_leaves_the_old_dataset(images: Path, three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare("toy", toy(), images, three)
    before = digest(images)
    with monkeypatch.context() as patch, pytest.raises(UserError, match=r"disk of .* is full"):
        patch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 10}))
        prepare("toy", toy(), images, three)

    def filling(*_: object) -> Iterator[object]:
        raise OSError(28, "No space left on device")
        yield

    with monkeypatch.context() as patch, pytest.raises(UserError, match=r"disk of .* is full"):
        patch.setattr("rtm.data.prepare.track", filling)
        prepare("toy", toy(), images, three)
    assert left(images) == ["images.npy", "meta.json"]
    assert digest(images) == before


@pytest.mark.slow(seconds=3)
def test_a_killed_preparation_leaves_no_dataset_and_goes_on(images: Path, three: Path, tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; from rtm.config.experiments import DatasetEntry\n"
        "from rtm.data import kinds, prepare\n"
        "real = kinds._decoded\n"
        "kinds._decoded = lambda path, content: "
        "os.kill(os.getpid(), signal.SIGKILL) if '2' in str(path) else real(path, content)\n"
        "prepare.prepare('toy', DatasetEntry.model_validate_json(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))"
    )
    arguments = [sys.executable, "-c", script, toy().model_dump_json(), str(images), str(three)]
    assert subprocess.run(arguments).returncode == -signal.SIGKILL
    assert [path.name.endswith(".tmp") for path in images.parent.iterdir()] == [True]
    with pytest.raises(UserError, match=r"images\.npy is missing; get it with `rtm fetch toy` or `dvc pull"):
        Images(images)
    fetch_dataset("toy", toy(), images, tmp_path / "downloads", three)
    assert {path.name for path in images.parent.iterdir()} == {"images.npy", "meta.json"}
