"""Proceedings of the European Parliament in Czech and German: Europarl, version 7 (Koehn 2005)."""

import io
import tarfile
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from lrpt.datasets.documents import cut
from lrpt.datasets.sources import writable_root
from lrpt.errors import UsageError

FOLDER = "europarl"
CHARACTERS = 20_000_000
ARCHIVES = {"europarl_cs": ("cs-en.tgz", "europarl-v7.cs-en.cs"), "europarl_de": ("de-en.tgz", "europarl-v7.de-en.de")}
"""Source -> the published archive, and its file in that language."""
_SITE = "https://www.statmt.org/europarl/v7/"


@lru_cache(maxsize=1)
def load_europarl(source: str, dir: Path | None = None) -> dict[str, str]:
    r"""'train', 'valid' and 'test' of a name in `ARCHIVES`.

    Jernite et al. (2017), section 5.2.2, have "about 20M characters" of each language, a part of the corpus; they state neither which, nor
    their splits. Here it is the beginning of the parallel text with English, up to the line that reaches `CHARACTERS`, cut 90/5/5 at line
    ends. Lines that are blank are left out, and in the others every white space is one blank; case and punctuation stay.

    The text or its archive is looked for in `dir`, in `dir`/europarl, and in the user's cache. Nothing is downloaded, because no checksum
    of the archives is published.

    Raises:
      UsageError: neither is there, or it is damaged, or not UTF-8.
    """
    archive, name = ARCHIVES[source]
    cache = writable_root(dir) / FOLDER
    places = [cache] if dir is None else [dir, dir / FOLDER, cache]
    path = next((place / file for place in places for file in (name, archive) if (place / file).is_file()), None)
    if path is None:
        where = cache if dir is None else f"{dir} or {dir / FOLDER}"
        advice = f"get {_SITE}{archive} (some 200 MB or less) and name its directory as --data.dir"
        raise UsageError(f"missing data: neither {name} nor {archive} is in {where}: {advice}", code=1)
    try:
        return cut(_beginning(path, name))
    except (OSError, EOFError, tarfile.TarError, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        raise UsageError(f"{path} is damaged, or not {name} in UTF-8 ({reason}): replace it by {_SITE}{archive}", code=1) from error


def _beginning(path: Path, name: str) -> str:
    """The lines of the text, or of the text in an archive, up to `CHARACTERS`."""
    if path.name == name:
        with path.open(encoding="utf-8") as file:
            return _lines(file)
    with tarfile.open(path) as archive:
        for member in archive:
            if Path(member.name).name == name and (content := archive.extractfile(member)):
                return _lines(io.TextIOWrapper(content, "utf-8"))
    raise tarfile.TarError(f"it has no {name}")


def _lines(lines: Iterable[str]) -> str:
    kept, size = [], 0
    for line in lines:
        if words := line.split():
            kept.append(f"{' '.join(words)}\n")
            size += len(kept[-1])
        if size >= CHARACTERS:
            break
    return "".join(kept)
