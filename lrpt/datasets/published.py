"""List of the published files of all data sets: where they go, their addresses, sizes and checksums."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from lrpt.datasets import irish, jsb, mnist, ptb, wikipedia
from lrpt.datasets.sources import Source
from lrpt.errors import UsageError


class Published(NamedTuple):
    """A data set: its folder in --data.dir, and its files."""

    folder: str
    files: Sequence[Source]


def data_sets() -> Mapping[str, Published]:
    """Return the data sets by name, the first part of their folder."""
    found = (
        Published(mnist.FOLDER, mnist.FILES),
        Published(ptb.FOLDER, ptb.FILES),
        Published(jsb.FOLDER, [*jsb.FILES.values()]),
        Published(irish.FOLDER, irish.FILES),
        Published(wikipedia.FOLDER, [corpus.archive for corpus in wikipedia.CORPORA.values()]),
    )
    return {one.folder.partition("/")[0]: one for one in found}


def listing(names: Sequence[str]) -> Iterator[str]:
    """Yield a line for each data set and each of its files: address, SHA-256 and bytes; of all data sets if none is named.

    Raises:
      UsageError: there is no data set with such a name.
    """
    known = data_sets()
    for name in names:
        if name not in known:
            raise UsageError(f"no data set is called '{name}': choose from {', '.join(known)}")
    for name in names or known:
        folder, files = known[name]
        yield f"# {name}: {len(files)} files, {sum(source.size for source in files):,} bytes; put them into {folder} inside --data.dir"
        yield from (f"{source.url} {source.sha256} {source.size}" for source in files)
