"""Settings of data sources that have no effect, such as a directory if a file is given."""

from collections.abc import Collection
from pathlib import Path

WITHOUT_FILES = {"python", "drawn", "digits", "synthetic"}
"""Sources that come with Python, with an installed package, or from a random generator, and so read no directory."""


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
