"""Files in ABC notation, cut into tunes."""

import re
from dataclasses import dataclass, field

_FIELD = re.compile(r"([A-Za-z]):(?![|:])\s*(.*)")


@dataclass(frozen=True)
class Tune:
    """A tune as it is written.

    Attributes:
      file: the name of the file that has it.
      number: what stands in its field X.
      fields: the header: letter -> contents, in file order; those of the head of the file first. K is the last one.
      lines: the body: its lines with their numbers in the file.
    """

    file: str
    number: str
    fields: dict[str, list[str]] = field(default_factory=dict)
    lines: list[tuple[int, str]] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The first one, or nothing."""
        return next(iter(self.fields.get("T", [])), "")

    @property
    def place(self) -> str:
        """How messages name it."""
        return f"{self.file}, tune {self.number}" + f" '{self.title}'" * bool(self.title)


def split_tunes(text: str, file: str) -> list[Tune]:
    """The tunes of a file, each from its field X to an empty line, to the next X, or to the end (ABC 2.1, section 2.2).

    Free text and typesetting instructions between tunes are passed over; fields before the first tune are in the header of every one.
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
    """A line of a tune to its header, or behind the field K to its body."""
    if "K" in tune.fields or found is None:
        tune.lines.append((number, line))
    else:
        tune.fields.setdefault(found[1], []).append(found[2])


def as_field(line: str) -> tuple[str, str] | None:
    """The letter and the contents of a line that is a field; None where it is music."""
    found = _FIELD.match(line)
    return (found[1], found[2]) if found else None


def without_comment(line: str) -> str:
    r"""The line up to an unescaped '%'; the instructions '%%' stay."""
    return line if line.startswith("%%") else re.split(r"(?<!\\)%", line, maxsplit=1)[0].rstrip()
