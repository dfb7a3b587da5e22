"""The summary at the end of a command, whatever the end is, and its exit status."""

import errno
import signal

import pytest

from lrpt.cli.command import concluding, leaving_with_a_line
from lrpt.errors import RemoteFailure, UsageError
from lrpt.runs.console import Console
from lrpt.runs.signals import Interrupted


def refuse():
    raise UsageError("a directory cannot be read", code=1)


@pytest.mark.parametrize("ending", [KeyboardInterrupt(), OSError("disk full"), UsageError("the loss is nan", code=1)])
def test_an_error_of_the_summary_does_not_hide_that_of_training(ending, capsys):
    with pytest.raises(type(ending)) as raised, concluding(refuse, Console()):
        raise ending
    assert raised.value is ending
    assert capsys.readouterr().err == "lrpt: warning: a directory cannot be read\n"


def test_an_error_of_the_summary_alone_is_raised():
    with pytest.raises(UsageError, match="a directory cannot be read"), concluding(refuse, Console()):
        pass


def test_after_a_wrong_flag_nothing_is_summarized():
    with pytest.raises(UsageError, match="rank is 99"), concluding(pytest.fail, Console()):
        raise UsageError("rank is 99")


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (UsageError("rank is 99"), 2, "rank is 99"),
        (UsageError("the loss is nan", code=1), 1, "the loss is nan"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "No space left on device"),
        (MemoryError("1 TiB"), 1, "out of memory (1 TiB)"),
        (KeyboardInterrupt(), 130, "stopped by Ctrl-C"),
        (Interrupted(signal.SIGTERM, 7), 143, "stopped by SIGTERM at update 7"),
        (RemoteFailure("told by the primary process", 3), 3, ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_a_command_that_fails_does_not_leave_with_status_0(error, code, says, capsys):
    with pytest.raises(SystemExit) as leaving, leaving_with_a_line(Console()):
        raise error
    assert leaving.value.code == code
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == bool(says)
