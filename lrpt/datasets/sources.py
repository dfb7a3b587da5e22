"""Published files: found in the user's directories or downloaded, and used only if their checksum is the registered one."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from itertools import combinations
from pathlib import Path, PurePath
from urllib.request import urlopen

from lrpt.errors import UsageError
from lrpt.files import cache_folder

LISTED = 60
"""Largest number of characters of the names of missing files that an error message lists; of more, it shows the first."""

_TIMEOUT_SECONDS = 10
_downloads = True


@dataclass(frozen=True)
class Source:
    """A published file.

    Attributes:
      name: its file name.
      url: its download address.
      size: its size in bytes.
      sha256: its checksum, in hexadecimal digits.
    """

    name: str
    url: str
    size: int
    sha256: str

    def mismatch(self, path: Path) -> str:
        """Describe how the file at `path` differs from the published one. Return an empty string if it does not."""
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found == self.sha256:
            return ""
        return f"its sha256 is {found} ({path.stat().st_size} bytes), expected {self.sha256} ({self.size} bytes)"


def writable_root(dir: Path | None) -> Path:
    """Return the directory for downloads and prepared data.

    It is `dir` if that is writable or can be created, else $XDG_CACHE_HOME/lrpt or ~/.cache/lrpt.

    Raises:
      UsageError: `dir` is a file.
    """
    if dir is None:
        return cache_folder()
    if dir.exists() and not dir.is_dir():
        raise UsageError(f"data.dir is {dir}, which is a file: name the directory that holds the data")
    existing = next(path for path in (dir, *dir.absolute().parents) if path.exists())
    # os.access is always true for root, so the permission bits are checked too.
    return dir if os.access(existing, os.W_OK) and existing.stat().st_mode & 0o222 else cache_folder()


def find(sources: Sequence[Source], dir: Path | None, folder: str) -> dict[str, Path]:
    """Find the files that exist locally: in `dir`, in `folder` or a part of it inside `dir`, or among earlier downloads.

    With `folder` 'music/irish', the places inside `dir` are '.', 'music/irish', 'music' and 'irish'. Return paths by name.

    Raises:
      UsageError: `dir` is a file, or a file has a registered name but other contents, or cannot be read.
    """
    parts = PurePath(folder).parts
    inside = [PurePath(*chosen) for count in range(len(parts), 0, -1) for chosen in combinations(parts, count)]
    own = [] if dir is None else [dir]
    places = [*own, *(root / part for root in [*own, writable_root(dir)] for part in inside)]
    found = {}
    for source in sources:
        path = next((place / source.name for place in places if (place / source.name).is_file()), None)
        if path is not None:
            _verify(source, path)
            found[source.name] = path
    return found


@contextmanager
def without_downloads() -> Iterator[None]:
    """Refuse to download inside: data are those that are already on this machine."""
    global _downloads
    before, _downloads = _downloads, False
    try:
        yield
    finally:
        _downloads = before


def obtain(sources: Sequence[Source], dir: Path | None, folder: str) -> dict[str, Path]:
    """Find all files as `find` does, and download those that are missing. Return paths by name.

    Raises:
      UsageError: an error of `find`, or a file is missing and cannot be downloaded.
    """
    found = find(sources, dir, folder)
    missing = [source for source in sources if source.name not in found]
    target = writable_root(dir) / folder
    try:
        if missing and not _downloads:
            raise OSError("downloads are off")
        for source in missing:
            found[source.name] = _download(source, target)
    except (OSError, HTTPException) as error:
        where = f"{dir} or its folder {folder}" if dir else str(target)
        reason = getattr(error, "reason", error)
        raise UsageError(
            f"missing data: {len(missing)} of {len(sources)} files are not in {where}, and downloading failed "
            f"({getattr(reason, 'strerror', None) or reason}): get {_named(missing)} from the addresses that "
            f"`python -m lrpt.datasets {PurePath(folder).parts[0]}` prints, and name their directory as --data.dir",
            code=1,
        ) from error
    return found


def _named(missing: Sequence[Source]) -> str:
    """Return the names of missing files; of many, the first and the number of the others."""
    names = ", ".join(source.name for source in missing)
    return names if len(missing) == 1 or len(names) <= LISTED else f"{missing[0].name} and {len(missing) - 1} others"


def _verify(source: Source, path: Path) -> None:
    try:
        mismatch = source.mismatch(path)
    except OSError as error:
        advice = "make it readable, or name another directory as --data.dir"
        raise UsageError(f"{path} cannot be read ({error.strerror}): {advice}", code=1) from error
    if mismatch:
        raise UsageError(
            f"{path} is damaged, incomplete or another file: {mismatch}; replace it by {source.url}, or remove it to have that downloaded",
            code=1,
        )


def _download(source: Source, target: Path) -> Path:
    with urlopen(source.url, timeout=_TIMEOUT_SECONDS) as response:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target) as scratch:
            part = Path(scratch) / source.name
            with part.open("wb") as file:
                shutil.copyfileobj(response, file)
            if mismatch := source.mismatch(part):
                raise OSError(f"{source.url} is another file: {mismatch}")
            return part.rename(target / source.name)
