"""Count the operations that a piece of code would launch on a GPU."""

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

FREE = ("empty", "detach", "lift_fresh", "_unsafe_view", "split_with_sizes")  # memory and views: nothing is launched


class Operations(TorchDispatchMode):
    """Count the dispatched operations inside the block, without views and allocations."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    @property
    def count(self) -> int:
        return len(self.names)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if not func.is_view and not name.startswith(FREE):
            self.names.append(name)
        return func(*args, **(kwargs or {}))
