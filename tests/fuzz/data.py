"""Bad archives, images, pickles, records, prepared files and servers.

Some formats have no checksum (JPEG, BMP, WEBP, a pickle, a label), so wrong pixels can look right. Only the sha256 in
the receipt or in params/ can find them, so these cases use it.
"""

import hashlib
import io
import zipfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from fuzz import fuzzer
from fuzz.damage import damaged
from safetensors.torch import save_file
from support.archives import cifar_batches, cifar_sheets, encoded, noise, tfrecord, write_folder, write_tar, write_zip
from support.servers import serving

from rtm.config.experiments import DatasetEntry, Source, Split
from rtm.core.files import digest
from rtm.data import download as module
from rtm.data import tfrecords
from rtm.data.check import problems
from rtm.data.datasets import Images, Pixels
from rtm.data.download import download
from rtm.data.prepare import prepare
from rtm.data.weights import load_network
from rtm.metrics.images import Selection, load_images

TOY: Any = {"title": "Toy", "resolution": 8, "licence": "-", "citation": "-"}
IMAGES = DatasetEntry(kind="images", count=4, **TOY)
CIFAR = DatasetEntry(kind="cifar10", count=10, classes=10, test=Split(count=2), **{**TOY, "resolution": 32})
HABITS = (
    *("honest", "drops", "mute", "deaf", "shifts", "stalls", "endless", "empty", "login"),
    *("disguised login", "other file", "claims more", "claims less", "deaf and dropping", "drops and changes"),
    *("204", "206", "404", "416", "500", "503"),
    *("to /x", "to http://[", "to //\xff", "to file:///etc/passwd"),
)


@cache
def pictures() -> Pixels:
    """Two pictures of noise, and two of stripes, which compress to few bytes."""
    stripes = np.broadcast_to(np.arange(8, dtype=np.uint8)[:, None], (2, 8, 8, 3))
    return np.concatenate([noise(2, 8, 8, 3), stripes])


def files(kind: str = "PNG") -> dict[str, bytes]:
    return {f"toy/{number}.{kind.lower()}": encoded(pixels, kind) for number, pixels in enumerate(pictures())}


def check_prepared(
    folder: Path,
    source: Path,
    expected: Pixels,
    dataset: DatasetEntry = IMAGES,
    **recorded: str,
) -> None:
    """An accepted source gives the pixels of the undamaged one."""
    images = folder / "data/toy/images.npy"
    prepare(
        "toy",
        dataset,
        images,
        source,
        recorded={f"{name}.npy": value for name, value in recorded.items()},
    )
    assert np.array_equal(Images(images).pixels, expected), "other pixels were accepted"


def damage_file(rng: Random, path: Path) -> Path:
    path.write_bytes(damaged(rng, path.read_bytes()))
    return path


@fuzzer
def zip_archive(rng: Random, folder: Path) -> None:
    check_prepared(folder, damage_file(rng, write_zip(folder / "x.zip", files())), pictures())


@fuzzer
def zip_methods(rng: Random, folder: Path) -> None:
    """The other compressions of zipfile."""
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(folder / "x.zip", "w", method) as archive:
        for name, content in files().items():
            archive.writestr(name, content)
    check_prepared(folder, damage_file(rng, folder / "x.zip"), pictures())


@fuzzer
def tar_archive(rng: Random, folder: Path) -> None:
    """The headers have checksums, and the images have their own."""
    check_prepared(folder, damage_file(rng, write_tar(folder / "x.tar", files())), pictures())


@fuzzer
def tar_gz_archive(rng: Random, folder: Path) -> None:
    check_prepared(folder, damage_file(rng, write_tar(folder / "x.tar.gz", files("BMP"))), pictures())


@fuzzer
def cifar_archive(rng: Random, folder: Path) -> None:
    pixels = noise(10, 3072)
    labels = list(range(10))
    made = rng.choice((cifar_batches, cifar_sheets))(pixels, labels)
    expected = pixels.reshape(10, 3, 32, 32).transpose(0, 2, 3, 1)
    check_prepared(folder, damage_file(rng, write_tar(folder / "x.tar.gz", made)), expected, CIFAR)


@fuzzer
def cifar_batch(rng: Random, folder: Path) -> None:
    """A damaged sheet in a folder. Only the recorded sha256 shows that the pixels are wrong."""
    pixels = noise(10, 3072)
    made = dict(cifar_sheets(pixels, list(range(10))))
    chosen = rng.choice([name for name in made if "_batch" in name])
    made[chosen] = damaged(rng, made[chosen])
    expected = pixels.reshape(10, 3, 32, 32).transpose(0, 2, 3, 1)
    sums = {name: _npy_sum(array) for name, array in (("images", expected), ("test_images", 255 - expected[:2]))}
    check_prepared(folder, write_folder(folder / "cifar", made), expected, CIFAR, **sums)


@fuzzer
def image_file(rng: Random, folder: Path) -> None:
    """A damaged image in a folder. A PNG has checksums; for other formats the recorded sha256 is used."""
    kind = rng.choice(("PNG", "JPEG", "WEBP", "BMP"))
    made = files(kind)
    good = folder / "good/images.npy"
    sha256 = prepare("toy", IMAGES, good, write_folder(folder / "toy", made))["images.npy"]
    expected = np.load(good)
    name = rng.choice(list(made))
    source = write_folder(folder / "bad", {**made, name: damaged(rng, made[name])})
    check_prepared(folder, source, expected, IMAGES, **({} if kind == "PNG" else {"images": sha256}))


@fuzzer
def foreign_images(rng: Random, folder: Path) -> None:
    """Input of `rtm evaluate`: a folder, an .npy or an .npz."""
    kind = rng.choice(("PNG", "JPEG", "BMP", "npy", "npz"))
    if kind.startswith("np"):
        path = folder / f"x.{kind}"
        with open(path, "wb") as file:
            np.save(file, pictures()) if kind == "npy" else np.savez_compressed(file, pictures())
        damage_file(rng, path)
    else:
        made = files(kind)
        name = rng.choice(list(made))
        path = write_folder(folder / "images", {**made, name: damaged(rng, made[name])})
    loaded = load_images(path)
    read = Selection(loaded, np.arange(min(4, len(loaded))))[0:4]
    assert read.dtype == np.uint8
    assert read.ndim == 4
    assert read.shape[-1] == 3
    assert kind != "PNG" or np.array_equal(read, pictures()), "other pixels were accepted"


@fuzzer
def tfrecord_file(rng: Random, folder: Path) -> None:
    """Each record has checksums; params/ has the number of records."""
    known = {image.tobytes() for image in pictures()}
    for image in tfrecords.images(damaged(rng, tfrecord(pictures())), "x"):
        assert image.tobytes() in known, "other pixels were accepted"


@fuzzer
def prepared_files(rng: Random, folder: Path) -> None:
    """Damage after the preparation: `rtm fetch --check` finds each changed byte of the images, without a traceback."""
    images = folder / "data/toy/images.npy"
    dataset = IMAGES.model_copy(update={"classes": 1})
    prepare("toy", dataset, images, write_folder(folder / "toy", files()))
    name = rng.choice(("images.npy", "labels.npy", "meta.json"))
    damage_file(rng, images.with_name(name))
    assert problems(dataset, images) or name != "images.npy", "damage was not found"
    Images(images)


@fuzzer
def network_file(rng: Random, folder: Path) -> None:
    """Safetensors have no checksum; the receipt has the sha256 of the file."""
    save_file({"a": torch.arange(6.0), "b": torch.ones(2, 2)}, folder / "x.safetensors", metadata={"rtm": "{}"})
    load_network(damage_file(rng, folder / "x.safetensors"))


@fuzzer
def server_habits(rng: Random, folder: Path) -> None:
    """A server with several bad habits in turn, and sometimes a damaged part from an earlier download."""
    content = Random(0).randbytes(200_000)
    if rng.random() < 0.3:
        (folder / "x.part").write_bytes(damaged(rng, content))
    with serving(content, *rng.choices(HABITS, k=rng.randint(1, 5))) as server:
        _check_download(folder, server.url, content)


@fuzzer
def server_answer(rng: Random, folder: Path) -> None:
    """An answer with damage anywhere, mostly in its header."""
    content = Random(0).randbytes(rng.choice((100, 5_000)))
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/zip\r\nContent-Length: %d\r\n\r\n" % len(content)
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(content), content)
    moved = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/x\r\nContent-Length: 0\r\n\r\n"
    answer = rng.choice((head + content, head + content, chunked, moved))
    part = answer if rng.random() < 0.5 else answer[:110]
    with serving(content, "raw") as server:
        server.raw = damaged(rng, part) + answer[len(part) :]
        _check_download(folder, server.url, content)


def _check_download(folder: Path, url: str, content: bytes) -> None:
    source = Source(url=url, sha256=hashlib.sha256(content).hexdigest())
    with patch.multiple(module, TIMEOUT=0.3, PAUSE=0.001, TRIES=2):
        download(url, folder / "x", source.checksums, largest=1_000_000)
    assert digest(folder / "x") == source.sha256, "another file was accepted"


def _npy_sum(array: Pixels) -> str:
    """sha256 of a prepared file."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(array), version=(1, 0))
    return hashlib.sha256(file.getvalue()).hexdigest()
