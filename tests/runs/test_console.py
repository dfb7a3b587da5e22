"""Text on the terminal and on a pipe, as it was given."""

import pytest

from lrpt.runs.console import Console

ODD = "runs/[old]/a[/b] :x:"
"""a label with brackets and a name between colons, which rich could take for markup and an emoji"""


def table(console):
    console.table([ODD, "loss"], [[ODD, "1"]], title=ODD)


def live(console):
    with console.live(ODD, [ODD]) as shown:
        shown.say(ODD)
        shown.draw(ODD, [[ODD]])


def bar(console):
    with console.bar(ODD, total=4, done=0) as shown:
        shown.advance(4, 0.5)
        shown.evaluated(4, ODD, {"loss": 0.5})


def busy(console):
    with console.busy(ODD):
        pass


def lines(console):
    console.say(ODD)
    console.warn(ODD)
    console.error(ODD)


SHOWN = [(lines, 3), (table, 3), (bar, 1)]
ON_A_TERMINAL = [(lines, 3), (table, 3), (live, 4), (bar, 2), (busy, 1)]


@pytest.mark.parametrize(("show", "times", "terminal"), [*((*case, False) for case in SHOWN), *((*case, True) for case in ON_A_TERMINAL)])
def test_brackets_are_shown(show, times, terminal, monkeypatch, capsys):
    """Tables show the label as a title, a column and a cell; on a terminal a live one shows its title first, and a line above."""
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "160")
    show(Console())
    out, err = capsys.readouterr()
    assert (out + err).count(ODD) >= times
