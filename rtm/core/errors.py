"""The one exception for problems that a user can fix. Every other exception is a bug and keeps its traceback."""


class UserError(Exception):
    """A mistake or a missing file. The message is one sentence that says what to do."""
