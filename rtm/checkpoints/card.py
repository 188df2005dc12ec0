"""The model card of a published checkpoint: its training, its metrics, and how to use it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rtm.config.catalogue import METRICS
from rtm.core.errors import printable

TEMPLATE = Path(__file__).parent / "card.md.j2"


def model_card(
    info: Mapping[str, Any],  # a checkpoint's metadata
    address: str,  # hf://owner/name/file
    sha256: str,  # of the file
    made: Mapping[str, Any] | None = None,  # from the receipt of its training
    measured: Sequence[Mapping[str, Any]] = (),  # metrics files
) -> str:
    """The text of the card; a ValueError if the metadata lack something."""
    from jinja2 import Environment, StrictUndefined, UndefinedError  # here, because drawing works without it

    environment = Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
    )
    environment.filters["cell"] = _cell
    template = environment.from_string(TEMPLATE.read_text("utf-8"))
    try:
        return template.render(info=info, address=address, sha256=sha256, made=made, measured=measured, metrics=METRICS)
    except UndefinedError as error:
        raise ValueError(str(error)) from None


def _cell(text: object) -> str:
    """A text of others in a cell of a table."""
    return printable(text).replace("|", "\\|").replace("<", "&lt;")
