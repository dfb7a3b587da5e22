"""The one exception that is addressed to the person at the keyboard."""

from collections.abc import Collection


class UsageError(ValueError):
    """Something the user can put right: the message names the value, what was expected, and what to do.

    The command line prints the message on one line and exits with `code`; library callers see an ordinary `ValueError`.
    """

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


def check_choice(flag: str, value: str, choices: Collection[str]) -> None:
    """Raises a UsageError unless `value` is one of `choices`."""
    if value not in choices:
        raise UsageError(f"{flag} is '{value}': choose from {', '.join(choices)}")


def check_distinct(flag: str, values: Collection[str]) -> None:
    """Raises a UsageError where nothing is named, or something twice."""
    if not values or len(set(values)) < len(values):
        raise UsageError(f"{flag} is {' '.join(values) or 'empty'}: give at least one, and none twice")


def check_at_least(least: int, config: object, *flags: str) -> None:
    """Raises a UsageError unless the field behind each of these flags is None or so large: 'train.updates' is `config.updates`."""
    for flag in flags:
        value = getattr(config, flag.rpartition(".")[2])
        if value is not None and not value >= least:
            raise UsageError(f"{flag} is {value}: expected {least} or more")


def check_shares(config: object, *flags: str) -> None:
    """Raises a UsageError unless the field behind each of these flags is a share that leaves something: from 0 to below 1."""
    for flag in flags:
        value = getattr(config, flag.rpartition(".")[2])
        if not 0 <= value < 1:
            raise UsageError(f"{flag} is {value}: expected a share from 0 to below 1")


class RemoteFailure(Exception):
    """A failure of the primary process, which has printed it. The other processes end with the same `code` and print nothing."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code
