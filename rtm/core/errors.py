"""The one exception for what a user can put right; everything else is a bug and keeps its traceback."""


class UserError(Exception):
    """A mistake or a missing thing, told in one sentence that says what to do."""
