"""Texts that need no download: the documentation included in Python, and the user's files."""

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from lrpt.datasets.data_file import not_utf8, read_bytes
from lrpt.errors import UsageError

BLANKS = ("stripped", "kept")
LINE_ENDS = ("folded", "kept")
CUTS = ("lines", "exact")
ENCODINGS = ("utf-8", "bytes")


class Form(NamedTuple):
    """Form in which a text is read. The defaults are usual in this project; `AS_WRITTEN` is the form of chahuja/lru.

    Attributes:
      blanks: the blank at each end of a published line of the Penn Treebank is 'stripped' or 'kept'.
      line_ends: line ends of a file; 'folded' turns CRLF and CR into LF and removes a byte-order mark, 'kept' leaves every character.
      cuts: places where a text is split 90/5/5; 'lines' moves them forward to a line end, 'exact' does not.
      encoding: encoding of a file; 'utf-8', or 'bytes', where each byte is a symbol.
    """

    blanks: str = "stripped"
    line_ends: str = "folded"
    cuts: str = "lines"
    encoding: str = "utf-8"


USUAL, AS_WRITTEN = Form(), Form("kept", "kept", "exact")


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


def user_file(path: Path, form: Form = USUAL) -> str:
    r"""Read a text file in the given form. By default it is UTF-8, line ends become '\n', and a byte-order mark is removed.

    With the encoding 'bytes' the text has one character for each byte, the one with the same number.

    Raises:
      UsageError: the file is missing, cannot be read, is not UTF-8, or is blank.
    """
    mark = form.line_ends == "folded"
    content = read_bytes(path, "name a text file in UTF-8")
    try:
        text = content.decode("latin-1" if form.encoding == "bytes" else "utf-8-sig" if mark else "utf-8")
    except UnicodeDecodeError as error:
        raise not_utf8(path, error, "convert it, name another file, or read it with --data.encoding bytes") from error
    if not text.strip():
        raise UsageError(f"data.file is {path}, which holds no text: name a text file in UTF-8")
    return text if form.line_ends == "kept" else text.replace("\r\n", "\n").replace("\r", "\n")


def cut(text: str, cuts: str = "lines") -> dict[str, str]:
    """Split a text into the first 90 % for training, the next 5 % for validation, and the last 5 % for test.

    With `cuts` 'lines', both split points move forward to the next line end, unless that would leave a split empty. With 'exact' they stay:
    validation and test have the whole part of 0.05 n of n characters each, as in chahuja/lru (dataUtils.py, `split_data`).
    """
    size = len(text)
    if cuts == "exact":
        part = int(0.05 * size)
        return {"train": text[: size - 2 * part], "valid": text[size - 2 * part : size - part], "test": text[size - part :]}
    places = (size * 90 // 100, size * 95 // 100, size)
    first, second = (_line_end(text, place, limit) for place, limit in pairwise(places))
    return {"train": text[:first], "valid": text[first:second], "test": text[second:]}


def _line_end(text: str, place: int, limit: int) -> int:
    """Return the position after the first line end at or after `place`, or `place` if no text would remain before `limit`."""
    return text.find("\n", place, limit - 1) + 1 or place
