"""The model card of a published checkpoint: its training, its metrics, and how to use it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rtm.core.errors import printable

Row = tuple[str, str]
NAMES = {"fid": "FID", "kid": "KID", "is": "Inception Score", "fid_floor": "FID of real images"}
ERRORS = ("_se", "_std")  # endings of names: the error of another metric


def model_card(
    info: Mapping[str, Any],  # a checkpoint's metadata
    address: str,  # hf://owner/name/file
    sha256: str,  # of the file
    made: Mapping[str, Any] | None = None,  # from the receipt of its training
    measured: Sequence[Mapping[str, Any]] = (),  # metrics files
) -> str:
    title = f"{info['experiment']}, seed {info['seed']}"
    parts = [_front(info), f"# {_cell(title)}", _introduction(info), _table(("", ""), _facts(info, sha256, made))]
    parts += ["## Metrics", *map(_metrics, measured)] if measured else ["No metrics were recorded for this file."]
    return "\n\n".join([*parts, "## Use", _use(info, address)]) + "\n"


def _front(info: Mapping[str, Any]) -> str:
    """The card's metadata for the Hub, as JSON, which is also YAML. The licence is "other", because the Hub seldom
    knows the dataset's licence."""
    tags = ["image-generation", *([_method(info).lower()] if _method(info) else [])]
    values = {"library_name": "rtm", "pipeline_tag": "unconditional-image-generation", "tags": tags, "license": "other"}
    return "\n".join(["---", *(f"{name}: {json.dumps(value)}" for name, value in values.items()), "---"])


def _introduction(info: Mapping[str, Any]) -> str:
    described, dataset = info["architecture"], info["dataset"]
    recursive = described["mapper"]["kind"] == "rtm"
    mapper = (
        "the Recursive Token Mapper" if recursive else f"the mapping network `{_cell(described['mapper']['kind'])}`"
    )
    method = _method(info) or "a method from outside of rtm"
    size = described["resolution"]
    return f"A generator of {size} × {size} px images of {_cell(dataset['title'])}, with {mapper}, trained by {method}."


def _method(info: Mapping[str, Any]) -> str:
    """The name of the training method; empty if it is a class from outside of rtm/."""
    return "StyleGAN2" if info["architecture"]["stylegan2"] else "RS-IMLE" if info["recipe"].get("imle") else ""


def _facts(info: Mapping[str, Any], sha256: str, made: Mapping[str, Any] | None) -> list[Row]:
    dataset, mapper = info["dataset"], info["architecture"]["mapper"]
    facts = [
        ("dataset", f"{dataset['title']}, {dataset['count']:,} images, sha256 {dataset['sha256']}"),
        ("licence of the dataset", dataset["licence"]),
        ("citation of the dataset", dataset["citation"]),
        ("mapper", ", ".join(f"{name} = {value}" for name, value in mapper.items())),
        ("sha256 of the file", sha256),
        ("written by", f"rtm {info['version']}, format {info['format']}"),
    ]
    if made is None:
        return [*facts, ("code revision", "not recorded: this file has no receipt")]
    environment = made.get("environment", {})
    used = ", ".join(
        f"{name} {environment[name]}" for name in ("python", "torch", "cuda", "gpu") if name in environment
    )
    hours = made.get("gpu_hours") or 0
    trained = [("trained", f"{made.get('time')}, {hours:g} GPU-hours" if hours else str(made.get("time")))]
    return [*facts, ("code revision", made.get("revision") or "not recorded"), *trained, ("environment", used)]


def _metrics(measured: Mapping[str, Any]) -> str:
    """The metrics of the model as trained, with intervals if the file has them."""
    values, intervals = measured["metrics"]["native"], measured.get("intervals", {}).get("native", {})
    rows = [
        (NAMES.get(name, name.replace("_", " ")), f"{value:g}", _interval(intervals.get(name)))
        for name, value in values.items()
        if not name.endswith(ERRORS)
    ]
    head = f"Protocol `{_cell(measured['protocol'])}`, {measured['samples']:,} samples:"
    return f"{head}\n\n{_table(('metric', 'value', '95 % interval over the samples'), rows)}"


def _interval(bounds: Sequence[float] | None) -> str:
    return f"{bounds[0]:g} to {bounds[1]:g}" if bounds else ""


def _use(info: Mapping[str, Any], address: str) -> str:
    option = ', label="..."' if info["architecture"]["classes"] else ""
    lines = ["import rtm", "", f"generator = rtm.load({json.dumps(address)})"]
    return "\n".join(
        ["```python", *lines, f"images = generator(count=16, seed=0{option})  # uint8, (16, R, R, 3)", "```"]
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: object) -> str:
    return printable(text).replace("|", "\\|").replace("<", "&lt;")
