"""The exception for problems that a user can fix. Every other exception is a bug and keeps its traceback."""

import sys
from typing import NoReturn


class UserError(Exception):
    """A mistake or a missing file. The message is one sentence that says what to do."""


def fail(message: object) -> NoReturn:
    """End the command with an error message."""
    print(f"rtm: {message}", file=sys.stderr)
    sys.exit(1)


def printable(text: object) -> str:
    """A foreign text as part of a message: on one line, without characters that control a terminal."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in str(text))


def reason_of(error: Exception) -> str:
    """The first line of another library's message, as part of our message."""
    return printable(next(iter(str(error).strip().splitlines()), type(error).__name__))[:200]
