"""`rtm` in the process of the tests, because hundreds of starts would take minutes."""

import os
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from unittest.mock import patch

from support import ROOT
from support.workspace import environment

from rtm.cli import main as cli


@dataclass(frozen=True)
class Answer:
    returncode: int
    stdout: str
    stderr: str


def rtm(*words: str, cwd: Path = ROOT) -> Answer:
    """Run the command in a folder."""
    out = StringIO()
    err = StringIO()
    variables = patch.dict(os.environ, environment(ROOT))
    command_line = patch.object(sys, "argv", ["rtm", *words])
    with chdir(cwd), variables, command_line, redirect_stdout(out), redirect_stderr(err):
        try:
            cli.main()
        except SystemExit as end:
            assert isinstance(end.code, int | None)
            return Answer(end.code or 0, out.getvalue(), err.getvalue())
    return Answer(0, out.getvalue(), err.getvalue())
