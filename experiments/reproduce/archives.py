"""Archives of unfinished runs, so that another machine can go on with them.

An archive holds the configuration, the metrics and the checkpoints of a run directory, and no path of the machine that wrote it.
"""

import hashlib
import io
import json
import lzma
import shutil
import tarfile
from pathlib import Path

from experiments.report.records import CONFIG, ENVIRONMENT, METRICS, anonymous
from lrpt.errors import UsageError
from lrpt.runs.checkpoint import SEAL
from lrpt.runs.files import write_bytes

CHECKPOINTS = "checkpoints"
COMMITTED = "commit_success.txt"
"""The file in which orbax says that a checkpoint is complete, and where it was written."""

LARGEST = 5_000_000
"""bytes of an archive, and a tenth of the bytes that it may unpack to"""


def archive_of(path: Path, folder: Path) -> Path:
    """Return the archive in `folder` of the run directory <experiment>/<name>."""
    return folder / path.parent.name / f"{path.name}.tar.xz"


def keep(path: Path, folder: Path) -> Path:
    """Write the archive of a run directory in place of an earlier one. Return its path.

    Raises:
      UsageError: the archive would be larger than `LARGEST`, or cannot be written.
    """
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz") as archive:
        for name, part in _contents(path).items():
            entry = tarfile.TarInfo(name)
            entry.size = len(part)
            archive.addfile(entry, io.BytesIO(part))
    target = archive_of(path, folder)
    if (size := content.tell()) > LARGEST:
        raise UsageError(f"{target} would have {size:,} bytes, of at most {LARGEST:,}: keep {path} itself to go on with that run", code=1)
    try:
        write_bytes(target, content.getvalue())
    except OSError as error:
        raise UsageError(f"{target} cannot be written ({error.strerror}): name another --unfinished", code=1) from error
    return target


def restore(path: Path, folder: Path) -> bool:
    """Unpack the archive of a run directory that does not exist. Return whether it was unpacked.

    Raises:
      UsageError: the archive is damaged, is too large, or holds files that are not those of a run.
    """
    source = archive_of(path, folder)
    if path.exists() or not source.exists():
        return False
    half = path.with_name(f".{path.name}.unpacking")
    shutil.rmtree(half, ignore_errors=True)  # of a process that was killed while it unpacked another version
    try:
        with tarfile.open(source) as archive:
            members = archive.getmembers()
            _check(source, members)
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and later have it
            archive.extractall(half, members)
        half.rename(path)
    except (tarfile.TarError, lzma.LZMAError, EOFError, OSError) as error:
        raise UsageError(f"{source} is damaged ({type(error).__name__}): restore or remove it", code=1) from error
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return True


def _check(source: Path, members: list[tarfile.TarInfo]) -> None:
    for member in members:
        first, *rest = member.name.split("/")
        if not member.isfile() or first not in (CONFIG, ENVIRONMENT, METRICS, CHECKPOINTS) or ".." in rest:
            raise UsageError(f"{source} holds '{member.name}', which is no file of a run: remove the archive", code=1)
    if (size := sum(member.size for member in members)) > 10 * LARGEST:
        raise UsageError(f"{source} unpacks to {size:,} bytes, of at most {10 * LARGEST:,}: remove the archive", code=1)


def _contents(path: Path) -> dict[str, bytes]:
    """Return the files of an archive by name, without paths of this machine; the seals of the checkpoints are those of the new contents."""
    sources = [path / name for name in (CONFIG, ENVIRONMENT, METRICS)] + sorted((path / CHECKPOINTS).rglob("*"))
    found = {source.relative_to(path).as_posix(): source.read_bytes() for source in sources if source.is_file()}
    for name in (CONFIG, ENVIRONMENT):
        found[name] = json.dumps(anonymous(json.loads(found[name])), indent=2).encode()
    for name in [name for name in found if name.endswith("/" + COMMITTED)]:
        found[name] = anonymous(found[name].decode()).encode()
    for name in [name for name in found if name.endswith("/" + SEAL)]:
        seal = json.loads(found[name])
        checkpoint = name.removesuffix(SEAL)
        seal["files"] = {file: hashlib.sha256(found[checkpoint + file]).hexdigest() for file in seal["files"]}
        found[name] = json.dumps(seal).encode()
    return found
