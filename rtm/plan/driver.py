"""A small library in place of CUDA's driver. torch's autograd engine asks the driver for GPUs in C++, so Python code
cannot replace the answer."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rtm.core.errors import UserError

DRIVER = """
#include <stdint.h>
static int8_t count = 0;
void pretend(int8_t devices) { count = devices; }
int8_t _ZN3c104cuda12device_countEv(void) { return count; }  // c10::cuda::device_count()
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { *flags = 0; *active = 0; return 0; }
"""


@contextmanager
def preloaded(folder: Path) -> Iterator[None]:
    """Inside this block, new processes can pretend to have GPUs. The library is kept in `folder`."""
    before = os.environ.get("LD_PRELOAD")
    os.environ["LD_PRELOAD"] = str(_driver(folder))
    try:
        yield
    finally:
        os.environ.pop("LD_PRELOAD")
        if before is not None:
            os.environ["LD_PRELOAD"] = before


def _driver(folder: Path) -> Path:
    """The library that answers the two questions of the autograd engine. It has the name of the driver's library."""
    path = folder / "libcuda.so.1"
    if path.exists():
        return path
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise UserError("A pretended GPU needs a C compiler; install gcc, or load its module.")
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wl,-soname,libcuda.so.1", "-x", "c", "-", "-o"]
    part = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([*command, str(part)], input=DRIVER.encode(), check=True, capture_output=True)
        part.replace(path)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(
            f"{path} cannot be made with {compiler} ({error}); see whether its folder can be written."
        ) from None
    return path
