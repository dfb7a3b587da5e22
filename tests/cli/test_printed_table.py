"""Commands that print a table: the table or JSON, help, and errors in one line."""

import json
from dataclasses import dataclass
from functools import partial

import pytest

from lrpt.cli.printed_table import print_table
from lrpt.errors import UsageError


@dataclass(frozen=True)
class Row:
    name: str
    count: int | None


def rows():
    return [Row("one", 1), Row("none", None)]


def command(arguments, rows=rows):
    print_table(rows, lambda found, console: print([row.name for row in found]), arguments, "python -m mine", "Counts of everything.")


def test_a_table_or_the_fields_of_its_rows(capsys, monkeypatch):
    command([])
    assert capsys.readouterr().out == "['one', 'none']\n"
    command(["--json"])
    assert json.loads(capsys.readouterr().out) == [{"name": "one", "count": 1}, {"name": "none", "count": None}]
    monkeypatch.setattr("sys.argv", ["mine.py", "--json"])
    command(None)
    assert len(json.loads(capsys.readouterr().out)) == 2


def test_help_names_the_command(capsys):
    with pytest.raises(SystemExit) as leaving:
        command(["--help"])
    assert not leaving.value.code
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("usage: python -m mine ")
    assert "Counts of everything." in others


def test_errors_are_one_line(assert_refused):
    def failing():
        raise UsageError("no costs.json: run experiments.costs", code=1)

    assert_refused(command, ["--jsn"], "--jsn")
    assert_refused(partial(command, rows=failing), [], "no costs.json", code=1)
