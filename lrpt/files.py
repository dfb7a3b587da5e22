"""Files of the user: the folder for what lrpt may make again, and bounded reading of regular files."""

import errno
import os
import stat
from pathlib import Path

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
        raise OSError(errno.EINVAL, "a device or a pipe")
    if status.st_size > most:
        raise OSError(errno.EFBIG, f"a file of {status.st_size:,} bytes, and the limit is {most:,}")
    return path.read_bytes()
