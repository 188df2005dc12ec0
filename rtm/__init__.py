"""Recursive Token Mapper: `from rtm import RTM, MLPMapper`, `rtm.load("w.safetensors")`, `rtm.evaluate("a/", "b/")`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rtm.checkpoints.sampler import load
    from rtm.metrics.standalone import evaluate
    from rtm.models.mappers import RTM, MLPMapper

__all__ = ["RTM", "MLPMapper", "evaluate", "load"]


def __getattr__(name: str) -> Any:
    """Load them on first use, so that `rtm.reports` and the command line start without torch."""
    if name == "load":
        from rtm.checkpoints.sampler import load

        return load
    if name == "evaluate":
        from rtm.metrics.standalone import evaluate

        return evaluate
    if name in __all__:
        from rtm.models import mappers

        return getattr(mappers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
