"""The one exception that is addressed to the person at the keyboard."""

from collections.abc import Collection


class UsageError(ValueError):
    """Something the user can put right: the message names the value, what was expected, and what to do.

    The command line prints the message on one line and exits with `code`; library callers see an ordinary `ValueError`.
    """

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


class Elsewhere(Exception):
    """The first of several processes failed, and has said why; the others end with it, silently and with the same `code`."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def check_choice(flag: str, value: str, choices: Collection[str]) -> None:
    """Raises a UsageError unless `value` is one of `choices`."""
    if value not in choices:
        raise UsageError(f"{flag} is '{value}': choose from {', '.join(choices)}")
