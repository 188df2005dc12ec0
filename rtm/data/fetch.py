"""`rtm fetch`: find the source of a dataset or network, on this machine or elsewhere, check it, and prepare it.

Only rtm.data.prepare and rtm.data.weights decide the content of outputs, so a change of this module leaves results
fresh. A source is identified by its published checksum, or by the checksum in the receipt of its first fetch.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from rtm.config.experiments import Dataset, Source
from rtm.core.errors import UserError
from rtm.core.files import digest_of_all
from rtm.data.datasets import Images
from rtm.data.download import difference, locked
from rtm.data.prepare import prepare
from rtm.data.sources import checksums_of, first_of
from rtm.data.weights import NETWORKS, convert

ARCHIVE_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz")
PREPARED = ("images.npy", "test_images.npy")
Seen = Mapping[str, str]  # sha256 by file name, of an earlier fetch


def fetch_dataset(
    name: str,
    dataset: Dataset,
    images: Path,
    downloads: Path,
    given: Path | None = None,
    seen: Seen | None = None,
    wait: bool = False,
) -> dict[str, str]:
    """Prepare a dataset. Return the sha256 of all sources and outputs, which is `seen` in the next call."""
    seen = seen or {}
    with locked(downloads / name):
        for left in images.parent.glob(".*.tmp"):  # left over because a fetch was killed
            left.unlink()
        if dataset.made_here:
            return prepare(name, dataset, images, recorded=seen)
        if dataset.of:
            whole = images.parent.with_name(dataset.of) / images.name
            origin = {"file": f"{dataset.of}/{whole.name}", "sha256": Images(whole).sha256}
            return prepare(name, dataset, images, whole, origin, seen)
        sources = [_pinned(source, seen) for source in dataset.sources]
        found = _given(given) if given else next(_here(name, sources, downloads), None)
        found = found or _brought(name, dataset, sources, downloads, wait)
        sha256 = _checked(found, dataset, sources, seen)
        made = prepare(name, dataset, images, found, {"file": found.name, "sha256": sha256}, seen)
    if not (dataset.sha256 or _published(found, dataset)):
        print(
            f"rtm: nobody publishes a checksum of {found.name}; the one of this file is recorded. Look at the images "
            f"(`rtm data show {name}`); `rtm data pin {name}` then writes their sha256 into params/datasets.yaml.",
            file=sys.stderr,
        )
    return {**seen, found.name: sha256, **made}


def download_problems(name: str, dataset: Dataset, downloads: Path, seen: Seen) -> list[str]:
    """Messages about downloaded files of the dataset that differ from the published or recorded checksums."""
    sources = [_pinned(source, seen) for source in dataset.sources]
    here = _here(name, sources, downloads)
    try:
        for found in here:
            _checked(found, dataset, sources, seen)
    except UserError as error:
        return [str(error).rstrip(".")]
    return []


def fetch_network(name: str, path: Path, downloads: Path, given: Path | None = None) -> None:
    """Write the network's tensors to `path`, from a local file or from the first source that answers."""
    network = NETWORKS[name]
    if given and given.is_dir():
        raise UserError(f"{given} is a folder; give the file {Path(network.sources[0].url).name} in it.")
    if given:
        return convert(name, _given(given), path)
    sources = [Source(url=each.url or None, pip=each.package or None, sha256=each.sha256) for each in network.sources]
    if cached := _in_torch_hub(sources):
        print(f"rtm: {name} is taken from {cached}", file=sys.stderr)
        return convert(name, cached, path)
    found, failures = first_of(sources, downloads)
    if found is None:
        raise UserError(
            f"No source gave {network.title} ({' '.join(failures)}); get {sources[0].url} where there is internet and "
            f"run `rtm fetch {name} --source {sources[0].name}`."
        )
    return convert(name, found, path)


def _in_torch_hub(sources: list[Source]) -> Path | None:
    """The file of a source in the cache of torch.hub, if it was downloaded there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "torch"
    folder = Path(os.environ.get("TORCH_HOME", cache)).expanduser() / "hub" / "checkpoints"
    named = ((folder / source.name, checksums_of(source)) for source in sources if source.url)
    return next((path for path, known in named if path.is_file() and not difference(path, known)), None)


def _pinned(source: Source, seen: Seen) -> Source:
    """The source; if it has no published checksum, with the checksum of its first fetch."""
    return source if checksums_of(source) else source.model_copy(update={"sha256": seen.get(source.name)})


def _published(found: Path, dataset: Dataset) -> bool:
    return any(checksums_of(source) for source in dataset.sources if source.name == found.name)


def _given(path: Path) -> Path:
    if not path.exists():
        raise UserError(f"{path} does not exist; give the file or folder itself.")
    return path


def _here(name: str, sources: list[Source], downloads: Path) -> Iterator[Path]:
    """The files or folders of the dataset in downloads/, from the user or from an earlier download."""
    names = [name, *(name + suffix for suffix in ARCHIVE_SUFFIXES), *(source.name for source in sources)]
    return (downloads / each for each in dict.fromkeys(names) if (downloads / each).exists())


def _brought(name: str, dataset: Dataset, sources: list[Source], downloads: Path, wait: bool) -> Path:
    """Get the dataset from the first source that gives it, or ask the user for it."""
    found, failures = first_of(sources, downloads)
    if found:
        print(*(f"rtm: {each}" for each in failures), f"rtm: {name} comes from {found}", sep="\n", file=sys.stderr)
        return found
    request = _by_hand(name, dataset, sources, downloads, failures)
    if not wait:
        raise UserError(f"{request}, and run this again; `rtm fetch {name} --wait` waits for the file.")
    print(f"rtm: {request}; this command waits for it and then continues.", file=sys.stderr, flush=True)
    return _awaited(name, sources, downloads)


def _by_hand(name: str, dataset: Dataset, sources: list[Source], downloads: Path, failures: list[str]) -> str:
    source = next((source for source in sources if source.page), sources[0])
    reason = f"No source gave {dataset.title} ({' '.join(failures)})" if failures else f"{dataset.title} needs a person"
    return (
        f"{reason}: get {source.name} from {source.origin} (licence: {dataset.licence}) and put it at "
        f"{downloads / source.name}, or a folder of its images at {downloads / name}"
    )


def _awaited(name: str, sources: list[Source], downloads: Path, pause: float = 2) -> Path:
    """Wait for a file from the user; return it when it has stopped growing."""
    before = 0
    while True:
        found = next(_here(name, sources, downloads), None)
        size = sum(path.stat().st_size for path in (found, *found.rglob("*")) if path.is_file()) if found else 0
        if found and 0 < size == before:
            return found
        before = size
        time.sleep(pause)


def _checked(found: Path, dataset: Dataset, sources: list[Source], seen: Seen) -> str:
    """The sha256 of a source, after a comparison with all known checksums. Its content is not parsed before."""
    published = [checksums_of(source) for source in sources if source.name == found.name]
    if not published and dataset.kind == "cifar10" and found.is_file():  # pickles must be official under any name
        published = _nearest(found, sources)
    if found.is_file() and (wrong := next(filter(None, (difference(found, each) for each in published)), "")):
        raise UserError(f"{found} is not the original ({wrong}); delete it and get it again.")
    sha256 = digest_of_all(found)
    if seen.get(found.name) not in (None, sha256):
        raise UserError(
            f"{found} is not what was fetched before: its sha256 is {sha256}, not {seen[found.name]}; get the "
            "original, or delete the receipt of this fetch if the data was meant to change."
        )
    return sha256


def _nearest(found: Path, sources: list[Source]) -> list[dict[str, str]]:
    """The checksums of the source that equals the file; if none does, of the first source."""
    known = [checksums for source in sources if (checksums := checksums_of(source))]
    return [each for each in known if not difference(found, each)] or known[:1]
