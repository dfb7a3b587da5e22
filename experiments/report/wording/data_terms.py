"""Data sets of kept results in one sentence each, and the licence that their source states."""

from typing import NamedTuple


class Terms(NamedTuple):
    """A description of data and its licence.

    Attributes:
      about: what it is, as a noun phrase.
      licence: the terms, as stated where it is published.
      is_read: whether a published file is read, so that commands need --data.dir or a download.
    """

    about: str
    licence: str
    is_read: bool = True


_DRAWN = "none needed: the code draws them"
_WIKIPEDIA = "GNU Free Documentation License (Wikipedia in 2006)"
_EUROPARL = "the source knows of no restrictions"

SOURCES = {
    "python": Terms("documentation that every Python includes", "PSF License 2", False),
    "digits": Terms("8x8 digits of scikit-learn (UCI: Optical Recognition of Handwritten Digits)", "CC BY 4.0", False),
    "mnist": Terms("MNIST", "none stated"),
    "ptb": Terms("the Penn Treebank as prepared by Mikolov", "text of the Linguistic Data Consortium, for research; do not republish it"),
    "ptb_joined": Terms("the Penn Treebank as prepared by Mikolov, its three files as one", "as for ptb"),
    "europarl_cs": Terms("Czech text of Europarl", _EUROPARL),
    "europarl_de": Terms("German text of Europarl", _EUROPARL),
    "enwik8": Terms("enwik8, an English Wikipedia with markup", _WIKIPEDIA),
    "text8": Terms("text8, an English Wikipedia without markup", _WIKIPEDIA),
    "jsb": Terms("chorales of Bach", "the music is in the public domain; none stated for the files"),
    "synthetic": Terms("chord progressions, drawn at random", _DRAWN, False),
    "irish": Terms(
        "O'Neill's \"Music of Ireland\" (1903) in ABC notation",
        "the tunes are in the public domain; each file states its terms",
    ),
    "drawn": Terms("melodies, drawn at random", _DRAWN, False),
}
"""Terms by the field `source` of a task."""

WITHOUT_SOURCE = {
    "Adding": Terms("sequences of the adding task, drawn at random", _DRAWN, False),
    "CopyMemory": Terms("sequences of the copy task, drawn at random", _DRAWN, False),
    "LabelledSequences": SOURCES["digits"],
}
"""Terms by class of the task, for tasks that have no field `source`."""

OWN_FILE = Terms("a file of the user", "that of the file")


def terms_of(data: object) -> Terms:
    """Return the terms of the data that a task's configuration names."""
    if getattr(data, "file", None) is not None:
        return OWN_FILE
    source = getattr(data, "source", None)
    return WITHOUT_SOURCE[type(data).__name__] if source is None else SOURCES[source]
