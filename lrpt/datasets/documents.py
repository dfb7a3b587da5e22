"""Texts that need no download: the documentation included in Python, and the user's files."""

from itertools import pairwise
from pathlib import Path

from lrpt.datasets.files import read_bytes
from lrpt.errors import UsageError


def python_documentation() -> str:
    """Return the `help()` topics of the language, about 370,000 characters. They differ between versions of Python.

    Topics quote each other. Only the first occurrence of a paragraph is kept, so that test text does not occur in the training text.

    Raises:
      UsageError: this Python was installed without its documentation.
    """
    try:
        from pydoc_data.topics import topics  # imported here because some distributions omit it
    except ImportError as error:
        advice = "name a text file in UTF-8 as --data.file, or choose another --data.source"
        raise UsageError(f"data.source is python, and this Python has no documentation ({error}): {advice}", code=1) from error
    paragraphs = "\n\n".join(topics.values()).split("\n\n")
    return "\n\n".join(dict.fromkeys(paragraphs))


def user_file(path: Path) -> str:
    r"""Read a text file in UTF-8. Line ends become '\n'; a byte-order mark is removed.

    Raises:
      UsageError: the file is missing, cannot be read, is not UTF-8, or is blank.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"data.file is {path}, which cannot be read ({error.strerror}): name a text file in UTF-8") from error
    except UnicodeDecodeError as error:
        where = f"byte 0x{error.object[error.start]:02x} at position {error.start}"
        raise UsageError(f"data.file is {path}, which is not UTF-8 ({where}): convert it, or name another file") from error
    if not text.strip():
        raise UsageError(f"data.file is {path}, which holds no text: name a text file in UTF-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def cut(text: str) -> dict[str, str]:
    """Split a text into the first 90 % for training, the next 5 % for validation, and the last 5 % for test.

    Both split points move forward to the next line end, unless that would leave a split empty.
    """
    size = len(text)
    places = (size * 90 // 100, size * 95 // 100, size)
    first, second = (_line_end(text, place, limit) for place, limit in pairwise(places))
    return {"train": text[:first], "valid": text[first:second], "test": text[second:]}


def _line_end(text: str, place: int, limit: int) -> int:
    """Return the position after the first line end at or after `place`, or `place` if no text would remain before `limit`."""
    return text.find("\n", place, limit - 1) + 1 or place
