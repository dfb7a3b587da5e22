"""Settings that name data: paths of files and directories, and which settings have no effect, such as a directory if a file is given."""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from lrpt.errors import UsageError

WITHOUT_FILES = {"python", "drawn", "digits", "synthetic"}
"""Sources that come with Python, with an installed package, or from a random generator, and so read no directory."""


def take_paths(config: object, *flags: str) -> None:
    """Turn settings of a configuration into paths, so that strings may be given. `~` is the home directory.

    The configuration of a string and that of its path are then equal, and describe the same run.

    Args:
      config: a frozen dataclass.
      flags: the settings, 'data.file' and 'data.dir' by default; 'train.start' stands for the field `config.start`.

    Raises:
      UsageError: a setting is neither a string nor a path.
    """
    for flag in flags or ("data.file", "data.dir"):
        name = flag.rpartition(".")[2]
        if (value := getattr(config, name, None)) is not None:
            object.__setattr__(config, name, _as_path(flag, value))  # dataclasses of settings are frozen


def _as_path(flag: str, value: Any) -> Path:
    if not isinstance(value, str | os.PathLike):
        raise UsageError(f"{flag} is {value!r}: expected a path, such as Path('mine') or 'mine'")
    return Path(os.path.expanduser(value))


def unused_places(source: str, file: Path | None = None, of_file: Collection[str] = ()) -> dict[str, str]:
    """Return which of the settings 'source' and 'dir' have no effect, and why: a file replaces a source and its directory.

    Args:
      source: name of the source.
      file: the file, if one is given.
      of_file: sources that say how a file is read.
    """
    if file is None:
        return {"dir": by_source(source)} if source in WITHOUT_FILES else {}
    return dict.fromkeys(("dir",) if source in of_file else ("source", "dir"), "data.file is given")


def by_source(source: str) -> str:
    """Return the reason for a setting that a source does not read."""
    return f"data.source is {source}"
