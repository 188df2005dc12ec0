"""The `rtm` command: the code of the folder it works in, in a process that may be waiting for it already."""

import os
import sys
from pathlib import Path

from rtm.cli import forkserver
from rtm.cli.place import go_to_root


def main() -> None:
    go_to_root()
    _use_the_code_of_this_folder()
    serves = sys.argv[1:2] == [forkserver.SERVE]
    if not serves and (socket := os.environ.get("RTM_FORKSERVER")):
        code = forkserver.hand_over(socket)
        if code is not None:
            sys.exit(code)
    try:
        from rtm.cli.main import main as run
    except ModuleNotFoundError as error:  # an install without the pipeline
        if not error.name or error.name.startswith("rtm."):
            raise
        from rtm.cli.generate import alone

        alone(error.name)
        return
    if serves:
        forkserver.serve(sys.argv[2], run)
    run()


def _use_the_code_of_this_folder() -> None:
    """Start again with the `rtm/` of the checkout that this is called in, if another one was imported.

    An environment may belong to another clone, and DVC's queue runs in copies of the repository: a result would be
    recorded for code that did not make it.
    """
    here, imported = Path.cwd(), Path(__file__).parents[1]
    if (here / "rtm/__main__.py").is_file() and (here / "params").is_dir() and not imported.samefile(here):
        if os.environ.get("RTM_CODE") == str(here):  # it was tried: something stands before PYTHONPATH
            sys.exit(f"rtm: {here} has an rtm/ of its own, but Python imports {imported}; use `python -m rtm`.")
        paths = [str(here), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "RTM_CODE": str(here)}
        os.execve(sys.executable, [sys.executable, "-m", "rtm", *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
