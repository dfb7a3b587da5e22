"""Which tunes are variants of each other, so that none is found on both sides of a split."""

import hashlib
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from lrpt.datasets.abc.symbols import Symbol
from lrpt.datasets.abc.tunes import Tune

INCIPIT = 12
"""Notes whose intervals make two tunes one where they agree."""
_ASIDES = re.compile(r"\(.*?\)|\[.*?\]|\b(?:setting|version|no\.?|nr\.?)\s*\d+|#\s*\d+")
_ARTICLE = re.compile(r"^(?:the|an?)\s+|[\s,.]*,\s*(?:the|an?)\W*$")


def plain_title(title: str) -> str:
    """A title without case, accents, article, punctuation, and what says which setting it is: 'Fairy Reel, The (2)' is 'fairy reel'."""
    letters = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    text = _ARTICLE.sub("", _ASIDES.sub(" ", letters).strip())
    return " ".join(re.findall(r"[a-z0-9]+", text.replace("'", "")))


def traits(tune: Tune, melody: Sequence[Symbol]) -> Iterator[str]:
    """What two variants have in common: a title, a place in a collection (field B), or the intervals between the first notes."""
    for title in tune.fields.get("T", []):
        if plain := plain_title(title):
            yield f"title {plain}"
    for book in tune.fields.get("B", []):
        if plain := plain_title(book) if re.search(r"\d", book) else "":
            yield f"book {plain}"
    pitches = [symbol.pitch for symbol in melody if symbol.pitch is not None][: INCIPIT + 1]
    if len(pitches) > INCIPIT:
        yield f"incipit {[b - a for a, b in pairwise(pitches)]}"


def families(of: Sequence[Sequence[str]]) -> list[list[int]]:
    """The numbers of the tunes that are connected by traits that they share, each family in order.

    Args:
      of: the traits of each tune.
    """
    parents = list(range(len(of)))

    def head(number: int) -> int:
        while parents[number] != number:
            parents[number] = number = parents[parents[number]]
        return number

    first: dict[str, int] = {}
    for number, own in enumerate(of):
        for trait in own:
            parents[head(number)] = head(first.setdefault(trait, number))
    groups = defaultdict(list)
    for number in range(len(of)):
        groups[head(number)].append(number)
    return list(groups.values())


def divide(of: Sequence[Sequence[str]], shares: Mapping[str, float]) -> dict[str, list[int]]:
    """The numbers of the tunes of each part; families stay together.

    Families come in an order that depends on nothing but their traits. Each part takes them until it has its share.

    Args:
      of: the traits of each tune.
      shares: of each part but the last, which gets what is left.
    """

    def rank(family: list[int]) -> str:
        return hashlib.sha256(min((trait for number in family for trait in of[number]), default="").encode()).hexdigest()

    ordered = sorted(families(of), key=rank)
    parts: dict[str, list[int]] = {part: [] for part in shares}
    names, rest = list(shares), iter(ordered)
    for part in names[:-1]:
        while len(parts[part]) < shares[part] * len(of) and (family := next(rest, None)) is not None:
            parts[part] += family
    parts[names[-1]] = [number for family in rest for number in family]
    return parts
