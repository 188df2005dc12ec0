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
    characters = []
    for character in str(text):
        characters.append(character if character.isprintable() else ascii(character)[1:-1])
    return "".join(characters)


def reason_of(error: Exception) -> str:
    """The first line of another library's message, as part of our message."""
    lines = str(error).strip().splitlines()
    reason = lines[0] if lines else type(error).__name__
    return printable(reason)[:200]
