"""Modules of the user's that a run depends on: which to import before its `config.json` can be read, and the SHA-256 of their files."""

import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from lrpt.runs.classes import name_of_module
from lrpt.runs.configuration import flatten, to_json
from lrpt.runs.imports import imported
from lrpt.tables import entries_named

IMPORTS = "imports"
"""The field of `config.json` that names modules to import before it is read. It decides no number."""

OWN = {"lrpt", "experiments"}
"""Packages of this library, whose commit is recorded."""


def modules_to_import(config: Any) -> list[str]:
    """Return the names of the modules that register what a configuration names, and of those that the user imported with `--import`.

    A program, such as a script of the user's, is left out, because importing it might train again.
    """
    return sorted({*imported(), *(name for name in _modules_of_entries(config) if not _is_program(name))})


def digests_of(config: Any) -> dict[str, str]:
    """Return the SHA-256 of the files of the user's modules that a configuration depends on, by the names of the modules.

    They are those of `modules_to_import`, those of the classes of model and task, and the modules that these import. Of packages that are
    installed, only those that are named themselves are included. A notebook has no file.
    """
    classes = [type(config.model).__module__, type(config.data).__module__]
    names = _with_imported({*imported(), *_modules_of_entries(config), *filter(_is_users, classes)})
    files = {name_of_module(name): _file_of(name) for name in names}
    return {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in sorted(files.items()) if file and file.is_file()}


def with_digests(before: Mapping[str, list[str]], now: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the digests of all files with which a run was trained, in order, with those of its next updates."""
    return {**before, **{name: [*(one for one in before.get(name, []) if one != digest), digest] for name, digest in now.items()}}


def changed(before: Mapping[str, list[str]], now: Mapping[str, str]) -> list[str]:
    """Return the names of the modules that have changed since a run was trained. Only those of both are compared."""
    return [name for name, digest in now.items() if before.get(name) and before[name][-1] != digest]


def _modules_of_entries(config: Any) -> set[str]:
    """Return the modules of the functions and classes that the user has registered under the names in a configuration."""
    named = {value for value in flatten(to_json(config)).values() if isinstance(value, str)}
    return {name for entry in entries_named(named) for name in _modules_of(entry) if _is_users(name)}


def _modules_of(entry: Any) -> Iterator[str]:
    """Yield the names of the modules that define an entry: a function, a class, a partial of one, or an object that holds them."""
    parts = [entry, *getattr(entry, "__dict__", {}).values()]
    if isinstance(entry, partial):
        parts = [entry.func, *entry.args, *entry.keywords.values()]
    for part in parts:
        yield getattr(part, "__module__", None) or ""


def _with_imported(names: Iterable[str]) -> set[str]:
    """Return these modules, and the user's modules that they import."""
    found, open_ones = set(names), list(names)
    while open_ones:
        module = sys.modules.get(open_ones.pop())
        inner = {_name_of(value) for value in vars(module or object).values()}
        new = {name for name in inner - found if _is_users(name) and _lies_with_the_user(name)}
        found |= new
        open_ones.extend(new)
    return found


def _name_of(value: Any) -> str:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    return name if isinstance(name, str) else ""


def _is_users(name: str) -> bool:
    return name in sys.modules and name_of_module(name).partition(".")[0] not in OWN and _file_of(name) is not None


def _lies_with_the_user(name: str) -> bool:
    """Return whether the file of a module lies outside the directories of Python and of installed packages."""
    file, places = _file_of(name), sysconfig.get_paths()
    if file is None or {"site-packages", "dist-packages"} & set(file.parts):
        return False
    return not any(file.is_relative_to(places[place]) for place in ("stdlib", "platstdlib"))


def _is_program(name: str) -> bool:
    return name in ("__main__", "__mp_main__")


def _file_of(name: str) -> Path | None:
    file = getattr(sys.modules.get(name), "__file__", None)
    return None if file is None else Path(file)
