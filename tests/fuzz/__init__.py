"""Bad input in great number: `python -m tests.fuzz --minutes 5`.

A fuzzer is a function that makes one bad input from its random numbers and gives it to the product. The case is handled
if it returns, which says that the result is right, or if the product raises a UserError of one line. It failed with any
other exception (an AssertionError says that wrong data was accepted), with a crash, or if it takes too long.

Add a module to this package and decorate its functions; nothing else is to be done.
"""

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from random import Random

Fuzzer = Callable[[Random, Path], None]  # random numbers of the case, and an empty folder for its files
FUZZERS: dict[str, Fuzzer] = {}


def fuzzer(call: Fuzzer) -> Fuzzer:
    """Register a function under its name, with a dash for each underscore."""
    FUZZERS[call.__name__.replace("_", "-")] = call
    return call


def discover() -> None:
    """Import the modules of this package, which registers their fuzzers."""
    for module in pkgutil.iter_modules(__path__):
        if module.name not in ("__main__", "runner", "worker"):
            importlib.import_module(f"{__name__}.{module.name}")
