"""Texts that need no download: the documentation that Python carries, and files of the user's."""

from itertools import pairwise
from pathlib import Path

from lrpt.errors import UsageError


def python_documentation() -> str:
    """What `help()` says about the topics of the language, some 370,000 characters; other versions of Python say it otherwise.

    Topics quote each other, so that text for testing would be found among the text for training: a paragraph is kept where it is met first.

    Raises:
      UsageError: a Python that was installed without its documentation.
    """
    try:
        from pydoc_data.topics import topics  # here, because some distributions leave it out
    except ImportError as error:
        advice = "name a text file in UTF-8 as --data.file, or choose another --data.source"
        raise UsageError(f"data.source is python, and this Python carries no documentation ({error}): {advice}", code=1) from error
    paragraphs = "\n\n".join(topics.values()).split("\n\n")
    return "\n\n".join(dict.fromkeys(paragraphs))


def user_file(path: Path) -> str:
    r"""The text of a file, with '\n' for every kind of line end and without a byte-order mark.

    Raises:
      UsageError: a file that is missing, cannot be read, holds no text, or is not UTF-8.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"data.file is {path}, which cannot be read ({error.strerror}): name a text file in UTF-8") from error
    except UnicodeDecodeError as error:
        where = f"byte 0x{error.object[error.start]:02x} at position {error.start}"
        raise UsageError(f"data.file is {path}, which is not UTF-8 ({where}): convert it, or name another file") from error
    if not text.strip():
        raise UsageError(f"data.file is {path}, which holds no text: name a text file in UTF-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def cut(text: str) -> dict[str, str]:
    """The first 90 %, the next 5 % and the last 5 % of the characters, for training, validation and test.

    Both cuts are moved on to the next end of a line, where there is one that leaves each part something.
    """
    size = len(text)
    places = (size * 90 // 100, size * 95 // 100, size)
    first, second = (_line_end(text, place, limit) for place, limit in pairwise(places))
    return {"train": text[:first], "valid": text[first:second], "test": text[second:]}


def _line_end(text: str, place: int, limit: int) -> int:
    """Behind the first line end from `place` on that has something between itself and `limit`; else `place`."""
    return text.find("\n", place, limit - 1) + 1 or place
