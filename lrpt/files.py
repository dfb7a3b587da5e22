"""Files of the user: the folder for what lrpt may make again, and bounded reading of regular files, also of JSON."""

import errno
import io
import json
import os
import stat
from pathlib import Path
from typing import Any

MOST = 4 * 2**30
"""bytes; enwik9 has a quarter of that"""


def cache_folder() -> Path:
    """Return $XDG_CACHE_HOME/lrpt, or ~/.cache/lrpt: the folder of downloads, prepared data and compiled programs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lrpt"


def read_regular(path: Path, most: int = MOST) -> bytes:
    """Return the content of a regular file.

    Raises:
      OSError: it cannot be read. The error number is EINVAL for a device or a pipe, which may never end, and EFBIG for a file of more
        than `most` bytes.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EINVAL, "a device or a pipe", str(path))
    if status.st_size > most:
        raise OSError(errno.EFBIG, f"a file of {status.st_size:,} bytes, and the limit is {most:,}", str(path))
    return path.read_bytes()


def read_text(path: Path, errors: str = "strict") -> str:
    r"""Return the text of a regular file in UTF-8, with \n at the end of every line.

    Args:
      path: path of the file.
      errors: what becomes of other bytes, as for `bytes.decode`.

    Raises:
      OSError: as for `read_regular`.
      ValueError: it is not text.
    """
    with io.TextIOWrapper(io.BytesIO(read_regular(path)), encoding="utf-8", errors=errors) as file:
        return file.read()


def read_json(path: Path) -> Any:
    """Return the value in a JSON file.

    Raises:
      OSError: as for `read_regular`.
      ValueError: it is no JSON that can be read, as for `parsed_json`.
    """
    return parsed_json(read_text(path))


def parsed_json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
      ValueError: it is no JSON, or it is nested too deeply for the parser.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
