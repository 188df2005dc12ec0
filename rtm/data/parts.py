"""Parts of frozen networks that some sources do not have: find missing parts before they are needed."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from safetensors import safe_open

from rtm.config.experiments import Protocol
from rtm.core.errors import UserError
from rtm.core.readers import reading

PARTS = {  # network: a tensor of the part, and a name of the part
    "inception": ("fc.weight", "the classes of the Inception score"),
    "vgg16": ("classifier.3.weight", "the layers behind precision and recall of protocol rs_imle"),
}


def lacking(name: str, path: Path) -> str:
    """The part that the file of a network does not have; "" if it has everything."""
    if name not in PARTS:
        return ""
    tensor, part = PARTS[name]
    with reading(path, f"get it again with `rtm fetch {name}`"), safe_open(path, "numpy") as file:
        complete = tensor in file.keys()  # noqa: SIM118  (no mapping)
    return "" if complete else part


def check_parts(experiment: str, protocols: Mapping[str, Protocol], weights: Callable[[str], Path]) -> None:
    """Raise an error if the training's metrics cannot be measured with the present weights; print what else is
    missing. `weights` gives the file of a network."""
    for name, protocol in protocols.items():
        for network in dict.fromkeys((protocol.extractor, protocol.pr_extractor)):
            path = weights(network)
            lacks = lacking(network, path) if path.exists() else ""
            if lacks and network == "vgg16":
                raise UserError(
                    f"{experiment} is measured by protocol {name}, but {path} lacks {lacks}; get the whole file as "
                    f"`rtm doctor` says, or leave {name} out of evaluation.protocols in params/recipes.yaml."
                )
            if lacks:
                print(
                    f"rtm: {path} lacks {lacks}, which {experiment} will not have; see `rtm doctor`.", file=sys.stderr
                )
