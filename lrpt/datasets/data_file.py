"""Reading of the file that `data.file` names."""

import errno
from pathlib import Path

from lrpt.errors import UsageError
from lrpt.files import MOST, read_regular

ADVICE = {errno.EINVAL: "copy what it gives to a file, and name that", errno.EFBIG: "name a part of it"}
"""What to do about a device or a pipe, which may never end, and about a file that is too large."""


def read_bytes(path: Path, advice: str) -> bytes:
    """Return the content of a regular file.

    Raises:
      UsageError: it is a device or a pipe, is too large, or cannot be read. In the last case the message ends with the advice.
    """
    try:
        return read_regular(path, MOST)
    except OSError as error:
        if error.errno in ADVICE:
            raise UsageError(f"data.file is {path}, which is {error.strerror}: {ADVICE[error.errno]}") from None
        raise UsageError(f"data.file is {path}, which cannot be read ({error.strerror or error}): {advice}") from error


def not_utf8(path: Path, error: UnicodeDecodeError, advice: str) -> UsageError:
    """Return the error of a file that is not UTF-8, with its first byte that is not."""
    where = f"byte 0x{error.object[error.start]:02x} at position {error.start}"
    return UsageError(f"data.file is {path}, which is not UTF-8 ({where}): {advice}")
