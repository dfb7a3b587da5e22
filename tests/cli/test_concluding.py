"""The summary at the end of a command, whatever the end is."""

import pytest

from lrpt.cli.command import concluding
from lrpt.errors import UsageError
from lrpt.runs.console import Console


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
