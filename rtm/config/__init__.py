"""`params/` as one typed object: `load(scale)`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rtm.config.loading import load, schema
    from rtm.config.parameters import Config, Experiment

__all__ = ["Config", "Experiment", "load", "schema"]


def __getattr__(name: str) -> Any:
    """Load pydantic and YAML on first use: code that builds networks or reads checkpoints does not need them."""
    if name in __all__:
        from rtm.config import loading

        return getattr(loading, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
