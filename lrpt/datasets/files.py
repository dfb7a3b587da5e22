"""Reading of a user's file: it must be a regular one, of a size that memory can hold."""

import stat
from pathlib import Path

from lrpt.errors import UsageError

MOST = 4 * 2**30
"""bytes; enwik9 has a quarter of that"""


def read_bytes(path: Path, most: int = MOST) -> bytes:
    """Return the content of a regular file.

    Raises:
      UsageError: it is a device or a pipe, which may never end, or too large.
      OSError: it cannot be read.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise UsageError(f"data.file is {path}, which is a device or a pipe: copy what it gives to a file, and name that")
    if status.st_size > most:
        raise UsageError(f"data.file is {path}, which has {status.st_size:,} bytes, and the limit is {most:,}: name a part of it")
    return path.read_bytes()
