"""The process that runs the cases. If it crashes, hangs or takes too much memory, the count goes on."""

import json
import os
import resource
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from random import Random

from fuzz import FUZZERS, discover

from rtm.core.errors import UserError

READY = "ready"
SPARE = 2 << 30  # bytes of memory that the cases may add


def tried(name: str, number: int) -> str:
    """Why a case failed; nothing if it was handled. The same name and number give the same case."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            FUZZERS[name](Random(f"{name} {number}"), Path(folder))
        except UserError as error:
            good = str(error) and str(error).isprintable()
            return "" if good else f"no message of one line: {str(error)!r}"
        except BaseException as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}: {str(error)[:200]}"
    return ""


def main() -> None:
    """Answer each line "NAME NUMBER" with a line of JSON; output of the product is dropped."""
    with os.fdopen(os.dup(1), "w") as answers, open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        warnings.simplefilter("ignore")  # a damaged picture may cause a warning
        discover()
        pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
        if pages:
            most = pages * resource.getpagesize() + SPARE
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        print(READY, file=answers, flush=True)
        for line in sys.stdin:
            name, number = line.split()
            print(json.dumps(tried(name, int(number))), file=answers, flush=True)


if __name__ == "__main__":
    main()
