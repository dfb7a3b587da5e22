"""The one exception that is addressed to the person at the keyboard."""


class UsageError(ValueError):
    """Something the user can put right: the message names the value, what was expected, and what to do.

    The command line prints the message on one line and exits with `code`; library callers see an ordinary `ValueError`.
    """

    def __init__(self, message: str, code: int = 2):
        super().__init__(message)
        self.code = code
