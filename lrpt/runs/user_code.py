"""Modules of the user's that a run depends on: which to import before its `config.json` can be read, and the SHA-256 of their files."""

import ast
import hashlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lrpt.runs.classes import name_of_module
from lrpt.runs.configuration import flatten, to_json
from lrpt.runs.imports import imported
from lrpt.tables import registrars

IMPORTS = "imports"
"""The field of `config.json` that names modules to import before it is read, in this order. It decides no number."""

OWN = {"lrpt", "experiments"}
"""Packages of this library, whose commit is recorded."""


def modules_to_import(config: Any) -> list[str]:
    """Return the names of the modules that register what a configuration names; none if it names nothing of the user's.

    Those that the user imported with `--import` come first, in that order, because one may call another to register. A program, such as
    a script of the user's, is left out, because importing it might train again.
    """
    registering = _registering(config)
    if not registering:
        return []
    return list(dict.fromkeys([*imported(), *sorted(name for name in registering if not _is_program(name))]))


def digests_of(config: Any) -> dict[str, str]:
    """Return the SHA-256 of the files of the user's modules that a configuration depends on, by the names of the modules.

    They are those that register what it names, those of `--import`, those of the classes of model and task, and the user's modules that
    the source of these imports. Of installed packages, only those that are named themselves are included. A notebook has no file.
    """
    classes = {type(config.model).__module__, type(config.data).__module__}
    names = _with_imported({name for name in {*imported(), *_registering(config), *classes} if _is_users(name)})
    found = {name_of_module(name): _digest(name) for name in sorted(names)}
    return {name: digest for name, digest in found.items() if digest is not None}


def with_digests(before: Mapping[str, list[str]], now: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the digests of all files with which a run was trained, in order, with those of its next updates."""
    return {**before, **{name: [*(one for one in before.get(name, []) if one != digest), digest] for name, digest in now.items()}}


def changed(before: Mapping[str, list[str]], now: Mapping[str, str]) -> list[str]:
    """Return the names of the modules that have changed since a run was trained. Only those of both are compared."""
    return [name for name, digest in now.items() if before.get(name) and before[name][-1] != digest]


def in_words(names: list[str]) -> str:
    """Return that these modules have changed, at most three by name."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"module {names[0]} has changed" if len(names) == 1 else f"modules {', '.join(names[:3])}{more} have changed"


def _registering(config: Any) -> set[str]:
    """Return the user's modules that registered something under a name in the configuration."""
    named = {value for value in flatten(to_json(config)).values() if isinstance(value, str)}
    return {name for name in registrars(named) if _is_users(name)}


def _with_imported(names: Iterable[str]) -> set[str]:
    """Return these modules, and the user's modules that their sources import."""
    found, open_ones = set(names), list(names)
    while open_ones:
        new = {name for name in _imported_by(open_ones.pop()) - found if _is_users(name) and _lies_with_the_user(name)}
        found |= new
        open_ones.extend(new)
    return found


def _imported_by(name: str) -> set[str]:
    """Return the names of modules that the source of a module imports, at any place in it. Modules are read, and never touched."""
    file = _file_of(name)
    try:
        tree = ast.parse(file.read_bytes()) if file is not None and file.suffix == ".py" else ast.Module([], [])
    except (OSError, SyntaxError, ValueError):
        return set()
    return {one for node in ast.walk(tree) for one in _named_in(node, _package_of(name))}


def _named_in(node: ast.AST, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        try:
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
        except ImportError:
            return
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names)  # a module, or something in it


def _package_of(name: str) -> str:
    package = vars(sys.modules[name]).get("__package__") if name in sys.modules else None
    return package if isinstance(package, str) else name.rpartition(".")[0]


def is_own(name: str) -> bool:
    """Return whether a module is a part of this library, and not of the user's code."""
    return name_of_module(name).partition(".")[0] in OWN


def _is_users(name: str) -> bool:
    return _file_of(name) is not None and not is_own(name)


def _lies_with_the_user(name: str) -> bool:
    """Return whether the file of a module lies outside the directories of Python and of installed packages."""
    file, places = _file_of(name), sysconfig.get_paths()
    if file is None or {"site-packages", "dist-packages"} & set(file.parts):
        return False
    return not any(file.is_relative_to(places[place]) for place in ("stdlib", "platstdlib"))


def _is_program(name: str) -> bool:
    return name in ("__main__", "__mp_main__")


def _file_of(name: str) -> Path | None:
    module = sys.modules.get(name)
    try:
        file = object.__getattribute__(module, "__dict__").get("__file__")  # a lazy module would import itself otherwise
    except AttributeError:
        return None
    return Path(file) if isinstance(file, str) else None


def _digest(name: str) -> str | None:
    file = _file_of(name)
    try:
        return None if file is None else hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None
