"""Detection of variants of a tune, so that variants do not occur on both sides of a split."""

import hashlib
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from lrpt.datasets.abc.symbols import Symbol
from lrpt.datasets.abc.tunes import Tune

INCIPIT = 12
"""Number of intervals after the first note that make two tunes variants if they agree."""
_ASIDES = re.compile(r"\(.*?\)|\[.*?\]|\b(?:setting|version|no\.?|nr\.?)\s*\d+|#\s*\d+")
_ARTICLE = re.compile(r"^(?:the|an?)\s+|[\s,.]*,\s*(?:the|an?)\W*$")


def plain_title(title: str) -> str:
    """Remove case, accents, article, punctuation and the number of the setting from a title: 'Fairy Reel, The (2)' becomes 'fairy reel'."""
    letters = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    text = _ARTICLE.sub("", _ASIDES.sub(" ", letters).strip())
    return " ".join(re.findall(r"[a-z0-9]+", text.replace("'", "")))


def traits(tune: Tune, melody: Sequence[Symbol]) -> Iterator[str]:
    """Yield what variants have in common: a title, a number in a collection (field B), or the intervals between the first notes."""
    for title in tune.fields.get("T", []):
        if plain := plain_title(title):
            yield f"title {plain}"
    for book in tune.fields.get("B", []):
        if plain := plain_title(book) if re.search(r"\d", book) else "":
            yield f"book {plain}"
    pitches = [symbol.pitch for symbol in melody if symbol.pitch is not None][: INCIPIT + 1]
    if len(pitches) > INCIPIT:
        yield f"incipit {[b - a for a, b in pairwise(pitches)]}"


def families(traits_of_tunes: Sequence[Sequence[str]]) -> list[list[int]]:
    """Group tunes that are connected by shared traits. Return the tune numbers of each group, in order.

    Args:
      traits_of_tunes: the traits of each tune.
    """
    parents = list(range(len(traits_of_tunes)))

    def head(number: int) -> int:
        while parents[number] != number:
            parents[number] = number = parents[parents[number]]
        return number

    first: dict[str, int] = {}
    for number, own in enumerate(traits_of_tunes):
        for trait in own:
            parents[head(number)] = head(first.setdefault(trait, number))
    groups = defaultdict(list)
    for number in range(len(traits_of_tunes)):
        groups[head(number)].append(number)
    return list(groups.values())


def divide(traits_of_tunes: Sequence[Sequence[str]], shares: Mapping[str, float]) -> dict[str, list[int]]:
    """Divide tunes into splits, keeping families together. Return the tune numbers of each split.

    Families are ordered by a hash of their traits, which does not depend on the order of the tunes. Each split takes families until it has
    its share.

    Args:
      traits_of_tunes: the traits of each tune.
      shares: the share of each split. The last split takes all remaining tunes.
    """

    def rank(family: list[int]) -> str:
        own = (trait for number in family for trait in traits_of_tunes[number])
        return hashlib.sha256(min(own, default="").encode()).hexdigest()

    ordered = sorted(families(traits_of_tunes), key=rank)
    parts: dict[str, list[int]] = {part: [] for part in shares}
    names, rest = list(shares), iter(ordered)
    for part in names[:-1]:
        while len(parts[part]) < shares[part] * len(traits_of_tunes) and (family := next(rest, None)) is not None:
            parts[part] += family
    parts[names[-1]] = [number for family in rest for number in family]
    return parts
