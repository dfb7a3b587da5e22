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
"""Source -> the published archive, and the file in that language inside it."""
_SITE = "https://www.statmt.org/europarl/v7/"


@lru_cache(maxsize=1)
def load_europarl(source: str, dir: Path | None = None) -> dict[str, str]:
    """Load the 'train', 'valid' and 'test' split of a source in `ARCHIVES`.

    Jernite et al. (2017), section 5.2.2, use "about 20M characters" of each language and state neither which ones nor their splits. Here
    the text is the beginning of the parallel text with English, up to the line that reaches `CHARACTERS`, split 90/5/5 at line ends. Blank
    lines are removed, and white space within a line becomes one blank; case and punctuation are kept.

    The text or its archive is looked for in `dir`, in `dir`/europarl, and in the user's cache. Nothing is downloaded, because no checksum
    of the archives is published.

    Raises:
      UsageError: neither the text nor its archive is found, or the file is damaged or not UTF-8.
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
    """Read the first `CHARACTERS` characters of the text, or of the text inside an archive."""
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
