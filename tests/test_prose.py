"""Tests of the first words of docstrings: verbs for functions, noun phrases for classes and modules. Help of flags is one line.

Ruff's rule D401 knows a fixed list of nouns. These tests find further words that begin neither a command nor a noun phrase.
"""

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RIDDLES = {
    *("About", "As", "But", "By", "For", "From", "How", "If", "In", "Of", "On", "So", "That", "Those", "To", "What", "When", "Where"),
    *("Whether", "Which", "Who", "Whoever", "Whose", "Why", "With", "Without"),
}
NO_VERBS = RIDDLES | {
    *("A", "All", "An", "Any", "Both", "Each", "Every", "It", "Its", "No", "None", "One", "Our", "Some", "The", "Their", "There", "These"),
    *("They", "This", "Three", "Two"),
}
ALLOWED: set[str] = set()
"""Exceptions, written as 'path:name: first word'."""


def sources() -> list[str]:
    return sorted(file.relative_to(ROOT).as_posix() for folder in ("lrpt", "experiments") for file in (ROOT / folder).rglob("*.py"))


def first_words(source: str) -> list[tuple[bool, str, str]]:
    """Return whether it is a function, name and first word of every docstring."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module) and (text := ast.get_docstring(node)):
            is_function = not isinstance(node, ast.ClassDef | ast.Module)
            found.append((is_function, getattr(node, "name", "the file"), re.match(r"\w*", text).group()))
    return found


@pytest.mark.parametrize("file", sources())
def test_docstrings_begin_with_a_verb_or_a_noun_phrase(file):
    words = first_words((ROOT / file).read_text("utf-8"))
    wrong = {f"{file}:{name}: {word}" for is_function, name, word in words if word in (NO_VERBS if is_function else RIDDLES)}
    assert wrong <= ALLOWED


def test_first_words_of_functions_classes_and_files():
    source = '"""Files."""\nclass A:\n    """What it is."""\n    def b(self):\n        """The result."""\n'
    assert sorted(first_words(source)) == [(False, "A", "What"), (False, "the file", "Files"), (True, "b", "The")]


@pytest.mark.parametrize("file", sources())
def test_help_of_a_flag_is_one_line(file):
    """tyro keeps the line breaks of a longer one, as its lines are indented."""
    classes = [node for node in ast.walk(ast.parse((ROOT / file).read_text("utf-8"))) if isinstance(node, ast.ClassDef)]
    fields = [pair for node in classes for pair in pairwise(node.body) if isinstance(pair[0], ast.AnnAssign)]
    helps = [text for _, text in fields if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)]
    assert [text.lineno for text in helps if text.end_lineno != text.lineno] == []


def names_in(file: Path) -> set[str]:
    """Return the names that a module defines or imports at its top level, and those that it lists as text, for lazy imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def resolves(reference: str) -> bool:
    """Return whether a dotted name is that of a package, a module, or something in a module. What a class has is not checked."""
    parts = reference.split(".")
    for count in range(len(parts), 0, -1):
        path, rest = ROOT.joinpath(*parts[:count]), parts[count:]
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if file.exists() or path.is_dir():
            return not rest or (file.exists() and rest[0] in names_in(file))
    return False


@pytest.mark.parametrize("file", sources())
def test_dotted_references_in_docstrings_exist(file):
    """They are names of this code in backquotes, as in `lrpt.runs.files.sync`."""
    nodes = ast.walk(ast.parse((ROOT / file).read_text("utf-8")))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    references = {name for text in texts for name in re.findall(r"`((?:lrpt|experiments)(?:\.\w+)+)`", text)}
    assert {name for name in references if ".NAME" not in name and not resolves(name)} == set()


def test_references_that_resolve():
    assert all(map(resolves, ["lrpt.runs", "lrpt.runs.files", "lrpt.runs.files.sync", "experiments.compress.Options"]))
    assert not any(map(resolves, ["lrpt.cli.unused.distinct", "lrpt.no_such", "lrpt.runs.no_such.sync"]))
