"""Parts of frozen networks that some sources do not have: find missing parts before they are needed."""

import sys
from pathlib import Path

from safetensors import safe_open

from rtm.config import Config, Experiment
from rtm.core.errors import UserError
from rtm.core.files import reading
from rtm.core.layout import Layout

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
        return "" if tensor in file.keys() else part  # noqa: SIM118  (no mapping)


def check_parts(config: Config, layout: Layout, experiment: Experiment) -> None:
    """Raise an error if the training's metrics cannot be measured with the present weights; print what else is
    missing."""
    for name in experiment.recipe.evaluation.protocols:
        protocol = config.params.protocols[name]
        for network in dict.fromkeys((protocol.extractor, protocol.pr_extractor)):
            path = layout.weights(network)
            if not (path.exists() and (lacks := lacking(network, path))):
                continue
            if network == "vgg16":
                raise UserError(
                    f"{experiment.name} is measured by protocol {name}, but {path} lacks {lacks}; get the whole file "
                    f"as `rtm doctor` says, or leave {name} out of evaluation.protocols in params/recipes.yaml."
                )
            print(
                f"rtm: {path} lacks {lacks}, which {experiment.name} will not have; see `rtm doctor`.", file=sys.stderr
            )
