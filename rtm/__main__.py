"""The `rtm` command. It uses the code of the current checkout, and UTF-8 in every locale."""

import codecs
import io
import locale
import os
import sys
from pathlib import Path

from rtm.cli.place import go_to_root


def main() -> None:
    _use_utf8()
    go_to_root()
    _use_the_code_of_this_folder()
    try:
        from rtm.cli.main import main as run
    except ModuleNotFoundError as error:  # an install without the pipeline
        if not error.name or error.name.startswith("rtm."):
            raise
        from rtm.cli.anywhere import main as run_alone

        run_alone(error.name, sys.argv[1:])
        return
    run()


def _use_utf8() -> None:
    """In a locale without UTF-8, start again in Python's UTF-8 mode. Otherwise names of files, printed tables and the
    output of other programs would depend on the locale, or end in an error."""
    in_utf8 = codecs.lookup(locale.getencoding()).name == "utf-8" or sys.flags.utf8_mode
    if not in_utf8 and os.environ.get("PYTHONUTF8") != "1":
        environment = {**os.environ, "PYTHONUTF8": "1"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":  # of PYTHONIOENCODING, or odd file names
            stream.reconfigure(errors="backslashreplace")


def _use_the_code_of_this_folder() -> None:
    """If Python imported `rtm/` from another checkout, start again with the `rtm/` of the current one.

    Another checkout is imported if the environment belongs to another clone, or in DVC's queue, which runs in copies
    of the repository. Without the restart, a receipt would name code that did not make the result.
    """
    here = Path.cwd()
    imported = Path(__file__).parents[1]
    if (here / "rtm/__main__.py").is_file() and (here / "params").is_dir() and not imported.samefile(here):
        if os.environ.get("RTM_CODE") == str(here):  # the restart did not help: another path comes before PYTHONPATH
            sys.exit(f"rtm: {here} has an rtm/ of its own, but Python imports {imported}; use `python -m rtm`.")
        paths = [str(here), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "RTM_CODE": str(here)}
        os.execve(sys.executable, [sys.executable, "-m", "rtm", *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
