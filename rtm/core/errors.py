"""The one exception for problems that a user can fix. Every other exception is a bug and keeps its traceback."""

import sys
from typing import NoReturn


class UserError(Exception):
    """A mistake or a missing file. The message is one sentence that says what to do."""


def fail(message: object) -> NoReturn:
    """End the command as after a mistake."""
    print(f"rtm: {message}", file=sys.stderr)
    sys.exit(1)


def printable(text: object) -> str:
    """A text from outside as part of a message: on one line, without characters that control a terminal."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in str(text))


def reason_of(error: Exception) -> str:
    """The first line of what another library says, as part of a message."""
    return printable(next(iter(str(error).strip().splitlines()), type(error).__name__))[:200]
