"""Bad input in large numbers: `python -m tests.fuzz --minutes 5`.

A fuzzer is a function that makes one bad input from its random numbers and gives it to the product. The case is handled
if the fuzzer returns (the result is right) or if the product raises a UserError of one line. The case fails with any
other exception (an AssertionError means that wrong data was accepted), with a crash, or if it takes too long.

To add fuzzers, add a module to this package and decorate its functions. Nothing else is needed.
"""

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from random import Random

Fuzzer = Callable[[Random, Path], None]  # takes the random numbers of the case, and an empty folder for its files
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
