"""Modules that the user names: which are remembered, and what to do about those that cannot be imported."""

import pytest

from lrpt.errors import UsageError
from lrpt.runs.imports import import_module, imported


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("mine.py", "give its name, mine, in its folder or with the folder on PYTHONPATH"),
        ("folder/mine", "give its name, mine, in its folder or with the folder on PYTHONPATH"),
        ("./mine.py", r"\(no name of a module\): give its name, mine, in its folder or with the folder on PYTHONPATH"),
        ("../folder/mine.py", r"\(no name of a module\): give its name, mine, in its folder"),
        (".mine", r"\(no name of a module\): name one that `python -c 'import \.mine'` finds"),
        ("", r"\(no name of a module\): name one"),
        ("folder.mine", r"\(No module named 'folder'\): name one that `python -c 'import folder\.mine'` finds"),
    ],
)
def test_modules_that_cannot_be_imported(name, advice):
    with pytest.raises(UsageError, match=f"^module '{name}' cannot be imported .*{advice}"):
        import_module(name)
    assert imported() == ()


@pytest.mark.parametrize(("content", "kind"), [("def f(:\n", SyntaxError), ("1 / 0\n", ZeroDivisionError)])
def test_an_error_in_a_module_is_raised_with_a_line_that_names_the_module(content, kind, tmp_path, monkeypatch):
    (tmp_path / "broken_of_mine.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(kind) as raised:
        import_module("broken_of_mine")
    assert raised.value.__notes__ == ["lrpt: module 'broken_of_mine' failed while it was imported: correct it"]
    assert imported() == ()


def test_modules_are_remembered_once_and_in_order(tmp_path, monkeypatch):
    (tmp_path / "failing_of_mine.py").write_text("from json import no_such_name\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("json.tool", "colorsys", "json.tool"):
        import_module(name)
    with pytest.raises(UsageError, match=r"cannot be imported \(cannot import name 'no_such_name'"):
        import_module("failing_of_mine")
    assert imported() == ("json.tool", "colorsys")
