"""Atomic writes of files, so that readers and crashes never leave a half-written one, and JSON that every parser reads."""

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from lrpt.errors import UsageError
from lrpt.files import parsed_json, read_json


def write_text(path: Path, text: str) -> None:
    """Write a file atomically: readers see the old content or the new one."""
    with _replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically, as `write_text` does."""
    with _replacing(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yield a file to write, which then takes the place of another one. Both the content and the name are on disk at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with naming(path):
            yield temporary
            sync(temporary)  # else a power failure could leave an empty file under the name
            temporary.replace(path)
            sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until the content of a file, or the names in a directory, are on disk. Only POSIX systems can sync a file that is read."""
    if os.name != "posix":
        return
    with suppress(OSError) if path.is_dir() else nullcontext():  # some file systems cannot sync a directory
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_json(path: Path, content: Any) -> None:
    """Write readable JSON atomically. Numbers that are not finite become null."""
    write_text(path, json.dumps(finite(content), indent=2, allow_nan=False) + "\n")


def json_line(content: Any) -> str:
    """Return one line of JSON. Numbers that are not finite become null."""
    return json.dumps(finite(content), allow_nan=False) + "\n"


def finite(content: Any) -> Any:
    """Return the same content with None in place of numbers that are not finite, which JSON cannot hold."""
    if isinstance(content, Mapping):
        return {name: finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def parsed_object(text: str) -> dict[str, Any] | None:
    """Return a JSON object, or None if the text is no object."""
    try:
        found = parsed_json(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a regular file.

    Raises:
      OSError: the file cannot be read.
      ValueError: it holds no object.
    """
    found = read_json(path)
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")
    return found


DIGEST = "sha256"
"""The field of a JSON object that holds the SHA-256 of its other fields."""


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content with its SHA-256 as a last field."""
    rest = {name: value for name, value in finite(content).items() if name != DIGEST}
    return {**rest, DIGEST: _digest(rest)}


def is_intact(content: Mapping[str, Any]) -> bool:
    """Return whether the content matches its seal; false if it has none."""
    return content.get(DIGEST) == _digest({name: value for name, value in content.items() if name != DIGEST})


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


NOT_A_DIRECTORY, DENIED = "Not a directory", "Permission denied"


def unwritable(path: Path) -> tuple[Path, str]:
    """Return the nearest of a directory and its parents that exists, and why nothing can be made in it; '' if something can."""
    existing = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not existing.is_dir():
        return existing, NOT_A_DIRECTORY
    try:
        with tempfile.TemporaryFile(dir=existing):  # os.access allows root everything, even to make files in /proc
            return existing, ""
    except OSError as error:
        return existing, error.strerror or DENIED


def check_directory(flag: str, path: Path) -> None:
    """Check that files can be written in a directory, which may not exist yet. Nothing is left there.

    Raises:
      UsageError: it is a file, is below one, or may not be written. `flag` is the option that names it.
    """
    existing, reason = unwritable(path)
    if reason == NOT_A_DIRECTORY:
        raise UsageError(f"{flag} is {path}, {'a file' if existing == path else f'below the file {existing}'}: name a directory")
    if reason:
        raise UsageError(f"{flag} is {path}, and {existing} may not be written: make it writable, or name another directory", code=1)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an OSError of the system name this file, as the error of a full disk does not."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
