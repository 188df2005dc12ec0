"""`rtm fetch`: find the source of a dataset or network, on this machine or elsewhere, check it, and prepare it.

Only rtm.data.prepare and rtm.data.networks decide the content of outputs, so a change of this module leaves results
fresh. A source is identified by its published checksum, or by the checksum in the receipt of its first fetch.
"""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from rtm.config.experiments import DatasetEntry, Source
from rtm.core.errors import UserError
from rtm.core.files import digest_of_all
from rtm.data.download import difference, locked
from rtm.data.networks import NETWORKS, convert
from rtm.data.prepare import prepare
from rtm.data.sources import first_of

ARCHIVE_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz")
PREPARED = ("images.npy", "test_images.npy")
PAUSE = 2.0  # seconds between two looks for the user's file
Seen = Mapping[str, str]  # sha256 by file name, of an earlier fetch


def fetch_dataset(
    name: str,
    dataset: DatasetEntry,
    images: Path,
    downloads: Path,
    local: Path | None = None,  # by the user, in place of the sources
    seen: Seen | None = None,
    wait: bool = False,
) -> dict[str, str]:
    """Prepare a dataset. Return the sha256 of all sources and outputs, which is `seen` in the next call."""
    seen = seen or {}
    with locked(downloads / name):
        for temporary in images.parent.glob(".*.tmp"):  # of a fetch that was killed
            temporary.unlink()
        if dataset.made_here:
            return prepare(name, dataset, images, recorded=seen)
        if dataset.of:
            whole = images.parent.with_name(dataset.of) / images.name
            return prepare(name, dataset, images, whole, seen)
        sources = _pinned(dataset, seen)
        source = _source(name, dataset, sources, downloads, local, wait)
        sha256 = _checked(source, dataset, sources, seen)
        sums = prepare(name, dataset, images, source, seen)
    published = any(other.checksums for other in dataset.sources if other.name == source.name)
    if not (dataset.sha256 or published):
        print(
            f"rtm: nobody publishes a checksum of {source.name}; the one of this file is recorded. Look at the images "
            f"(`rtm fetch --show {name}`), then write their sha256 into params/ (`rtm fetch --pin {name}`).",
            file=sys.stderr,
        )
    return {**seen, source.name: sha256, **sums}


def download_problems(name: str, dataset: DatasetEntry, downloads: Path, seen: Seen) -> list[str]:
    """Messages about downloaded files of the dataset that differ from the published or recorded checksums."""
    sources = _pinned(dataset, seen)
    try:
        for path in _here(name, sources, downloads):
            _checked(path, dataset, sources, seen)
    except UserError as error:
        return [str(error).rstrip(".")]
    return []


def _pinned(dataset: DatasetEntry, seen: Seen) -> list[Source]:
    """The sources; those without a published checksum have the checksum of their first fetch."""
    return [
        source if source.checksums else source.model_copy(update={"sha256": seen.get(source.name)})
        for source in dataset.sources
    ]


def _source(
    name: str, dataset: DatasetEntry, sources: list[Source], downloads: Path, local: Path | None, wait: bool
) -> Path:
    """The file or folder of a dataset: from the user, from an earlier download, or from the first source that gives
    it. The last way is to ask a person."""
    if local:
        return _existing(local)
    if here := _here(name, sources, downloads):
        return here[0]
    path, failures = first_of(sources, downloads)
    if path:
        for sentence in (*failures, f"{name} comes from {path}"):
            print(f"rtm: {sentence}", file=sys.stderr)
        return path
    request = _request(name, dataset, sources, downloads, failures)
    if not wait:
        raise UserError(f"{request}, and run this again; `rtm fetch {name} --wait` waits for the file.")
    print(f"rtm: {request}; this command waits for it and then continues.", file=sys.stderr, flush=True)
    return _awaited(name, sources, downloads)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise UserError(f"{path} does not exist; give the file or folder itself.")
    return path


def _here(name: str, sources: list[Source], downloads: Path) -> list[Path]:
    """The files or folders of the dataset in downloads/, from the user or from an earlier download."""
    names = [name]
    names += [name + suffix for suffix in ARCHIVE_SUFFIXES]
    names += [source.name for source in sources]
    paths = [downloads / file for file in dict.fromkeys(names)]
    return [path for path in paths if path.exists()]


def _request(name: str, dataset: DatasetEntry, sources: list[Source], downloads: Path, failures: list[str]) -> str:
    source = next((source for source in sources if source.page), sources[0])
    reason = f"{dataset.title} needs a person"
    if failures:
        reason = f"No source gave {dataset.title} ({' '.join(failures)})"
    return (
        f"{reason}: get {source.name} from {source.origin} (licence: {dataset.licence}) and put it at "
        f"{downloads / source.name}, or a folder of its images at {downloads / name}"
    )


def _awaited(name: str, sources: list[Source], downloads: Path) -> Path:
    """Wait for a file from the user; return it when it has stopped growing."""
    before = 0
    while True:
        size = 0
        for path in _here(name, sources, downloads)[:1]:
            files = [file for file in (path, *path.rglob("*")) if file.is_file()]
            size = sum(file.stat().st_size for file in files)
            if 0 < size == before:
                return path
        before = size
        time.sleep(PAUSE)


def _checked(path: Path, dataset: DatasetEntry, sources: list[Source], seen: Seen) -> str:
    """The sha256 of a source, after a comparison with all known checksums. Its content is not parsed before."""
    known = [source.checksums for source in sources if source.name == path.name]
    if path.is_file():
        if dataset.kind == "cifar10" and not any(known):
            _refuse_unknown(path, sources)
        for checksums in known:
            if wrong := difference(path, checksums):
                raise UserError(f"{path} is not the original ({wrong}); delete it and get it again.")
    sha256 = digest_of_all(path)
    if seen.get(path.name) not in (None, sha256):
        raise UserError(
            f"{path} is not what was fetched before: its sha256 is {sha256}, not {seen[path.name]}; get the "
            "original, or delete the receipt of this fetch if the data was meant to change."
        )
    return sha256


def _refuse_unknown(path: Path, sources: list[Source]) -> None:
    """Pickles are opened only if a checksum says that they are the original ones, under any name."""
    differences = [difference(path, source.checksums) for source in sources if source.checksums]
    if not differences:
        raise UserError(f"{path} cannot be checked; write the md5 or sha256 of a source into params/datasets.yaml.")
    if all(differences):
        raise UserError(f"{path} is not the original ({differences[0]}); delete it and get it again.")


# networks


def fetch_network(name: str, path: Path, downloads: Path, local: Path | None = None) -> None:
    """Write the network's tensors to `path`, from a local file or from the first source that answers."""
    network = NETWORKS[name]
    if local and local.is_dir():
        raise UserError(f"{local} is a folder; give the file {network.sources[0].name} in it.")
    if local:
        return convert(name, _existing(local), path)
    sources = network.sources
    if cached := _in_torch_hub(sources):
        print(f"rtm: {name} is taken from {cached}", file=sys.stderr)
        return convert(name, cached, path)
    original, failures = first_of(sources, downloads)
    if original is None:
        raise UserError(
            f"No source gave {network.title} ({' '.join(failures)}); get {sources[0].url} where there is internet and "
            f"run `rtm fetch {name} --source {sources[0].name}`."
        )
    return convert(name, original, path)


def _in_torch_hub(sources: list[Source]) -> Path | None:
    """The file of a source in the cache of torch.hub, if it was downloaded there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "torch"
    folder = Path(os.environ.get("TORCH_HOME", cache)).expanduser() / "hub" / "checkpoints"
    for source in sources:
        path = folder / source.name
        if source.url and path.is_file() and not difference(path, source.checksums):
            return path
    return None
