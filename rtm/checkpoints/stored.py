"""The weights of an experiment of this repository, by the receipt of its training: where they were written, or in a
store of DVC that is a folder here. It needs torch and safetensors alone."""

import configparser
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rtm.core.files import digest

SEED = re.compile(r"/seed(\d+)$")


def stored(word: str, root: Path = Path()) -> Path | None:
    """The checkpoint of `experiment`, `scale/experiment` or `scale/experiment/seed1`; None if it is not here."""
    name = word.strip("/")
    seed = SEED.search(name)
    *scale, experiment = SEED.sub("", name).split("/")
    receipts = root.joinpath(*scale, "lineage", "train", experiment)
    for receipt in sorted(receipts.glob(f"seed{seed[1]}.json" if seed else "seed*.json")):
        for written, md5 in _weights(receipt):
            for path in (root / written, *(store / md5[:2] / md5[2:] for store in _stores(root))):
                if path.is_file() and digest(path, "md5") == md5:
                    return path
        break  # without a seed in the name, the first one
    return None


def _weights(receipt: Path) -> Iterator[tuple[str, str]]:
    """The checkpoints that a receipt names, with their md5. A damaged receipt names none."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        outputs = json.loads(receipt.read_text(encoding="utf-8"))["outputs"]
        yield from ((name, str(output["md5"])) for name, output in outputs.items() if name.endswith(".safetensors"))


def _stores(root: Path) -> Iterator[Path]:
    """DVC's cache, and its remotes that are folders."""
    folder = root / ".dvc"
    yield folder / "cache/files/md5"
    config = configparser.ConfigParser()
    with suppress(configparser.Error):
        config.read([folder / "config", folder / "config.local"], encoding="utf-8")
    for section in config.sections():
        url = config[section].get("url", "")
        if section.strip("'").startswith("remote") and url and "://" not in url:
            yield folder / Path(url).expanduser() / "files/md5"
