"""Tunes of a file in ABC notation."""

import re
from dataclasses import dataclass, field

_FIELD = re.compile(r"([A-Za-z]):(?![|:])\s*(.*)")


@dataclass(frozen=True)
class Tune:
    """The text of a tune.

    Attributes:
      file: the name of its file.
      number: the contents of its field X.
      fields: the header: letter -> contents, in file order. Fields of the file's head come first; K is the last field.
      lines: the lines of the body, with their line numbers in the file.
    """

    file: str
    number: str
    fields: dict[str, list[str]] = field(default_factory=dict)
    lines: list[tuple[int, str]] = field(default_factory=list)

    @property
    def title(self) -> str:
        """Return the first title, or an empty string."""
        return next(iter(self.fields.get("T", [])), "")

    @property
    def place(self) -> str:
        """Return the name of the tune for messages."""
        return f"{self.file}, tune {self.number}" + (f" '{self.title}'" if self.title else "")


def split_tunes(text: str, file: str) -> list[Tune]:
    """Split a file into tunes. A tune begins with a field X and ends at an empty line, the next X, or the end (ABC 2.1, section 2.2).

    Free text and typesetting instructions between tunes are ignored. Fields before the first tune are added to the header of every tune.
    """
    head: dict[str, list[str]] = {}
    tunes: list[Tune] = []
    tune: Tune | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = without_comment(raw)
        found = _FIELD.match(line)
        if found and found[1] == "X":
            tune = Tune(file, found[2].strip(), {letter: list(contents) for letter, contents in head.items()})
            tunes.append(tune)
        elif not raw.strip():
            tune = None
        elif tune is not None:
            _add(tune, number, line, found)
        elif not tunes and found:
            head.setdefault(found[1], []).append(found[2])
    return tunes


def _add(tune: Tune, number: int, line: str, found: re.Match[str] | None) -> None:
    """Add a line to the header of a tune, or to its body after the field K."""
    if "K" in tune.fields or found is None:
        tune.lines.append((number, line))
    else:
        tune.fields.setdefault(found[1], []).append(found[2])


def as_field(line: str) -> tuple[str, str] | None:
    """Return the letter and the contents of a line that is a field, or None if it is music."""
    found = _FIELD.match(line)
    return (found[1], found[2]) if found else None


def without_comment(line: str) -> str:
    """Return the line up to an unescaped '%'. Instructions, which begin with '%%', are kept."""
    return line if line.startswith("%%") else re.split(r"(?<!\\)%", line, maxsplit=1)[0].rstrip()
