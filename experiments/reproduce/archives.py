"""Archives of unfinished runs, so that another machine can go on with them.

An archive holds the configuration, the metrics and the checkpoints of a run directory, and no path of the machine that wrote it.
"""

import hashlib
import io
import json
import lzma
import re
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from experiments.report.kept.records import anonymous
from lrpt.errors import UsageError
from lrpt.runs.checkpoint import SEAL, Damaged, intact, updates_in
from lrpt.runs.files import parsed_object, write_bytes
from lrpt.runs.layout import CHECKPOINTS, CONFIG, ENVIRONMENT, FAILURE, METRICS, OLDER, RESULT, RUN
from lrpt.runs.run_directory import RunDirectory
from lrpt.training.config import RunConfig

COMMITTED = "commit_success.txt"
"""The file in which orbax says that a checkpoint is complete, and where it was written."""

LARGEST = 5_000_000
"""bytes of an archive, and a tenth of the bytes that it may unpack to"""


class Unpacked(NamedTuple):
    """An unpacked archive.

    Attributes:
      update: of its newest checkpoint.
      aside: where the older run directory is now, or None if there was none.
    """

    update: int
    aside: Path | None


def archive_of(path: Path, folder: Path) -> Path:
    """Return the archive in `folder` of the run directory <experiment>/<name>."""
    return folder / path.parent.name / f"{path.name}.tar.xz"


def newest(path: Path, folder: Path) -> int:
    """Return the update of the newest checkpoint in the archive of a run directory; 0 if there is none.

    Raises:
      UsageError: the archive is damaged.
    """
    source = archive_of(path, folder)
    if not source.exists():
        return 0
    with _reading(source) as archive:
        return _newest_of(archive.getnames())


def keep(path: Path, folder: Path, warn: Callable[[str], None] = lambda text: None) -> Path:
    """Write the archive of a run directory, unless there is one that went at least as far. Return its path.

    Args:
      path: the run directory.
      folder: where archives are.
      warn: called with a line for every damaged checkpoint, which is left out.

    Raises:
      UsageError: the archive would be larger than `LARGEST`, or cannot be written; a file of the run cannot be read, or all of its
        checkpoints are damaged; the archive in its place is damaged.
    """
    target, before = archive_of(path, folder), newest(path, folder)
    try:
        contents = _contents(path, warn)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise UsageError(f"{path} cannot be packed ({reason}): restore its files, or remove it to start over", code=1) from error
    update = _newest_of(contents)
    if not max(before, update):
        raise UsageError(f"{path} cannot be packed (every checkpoint is damaged): remove it to start over", code=1)
    if update > before:
        _write(path, target, contents)
    return target


def _write(path: Path, target: Path, contents: Mapping[str, bytes]) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as archive:
        for name, part in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(part)
            archive.addfile(entry, io.BytesIO(part))
    if (size := packed.tell()) > LARGEST:
        raise UsageError(f"{target} would have {size:,} bytes, of at most {LARGEST:,}: keep {path} itself to go on with that run", code=1)
    try:
        write_bytes(target, packed.getvalue())
    except OSError as error:
        raise UsageError(f"{target} cannot be written ({error.strerror}): name another --unfinished", code=1) from error


def restore(path: Path, folder: Path, config: RunConfig[Any] | None = None) -> Unpacked | None:
    """Unpack the archive of a run directory that does not exist or did not come as far. Return None if nothing was unpacked.

    The older directory is moved aside, and nothing of it is removed.

    Args:
      path: the run directory.
      folder: where archives are.
      config: what will be trained there. Its paths take the place of PATH, so that the run counts as the same one.

    Raises:
      UsageError: the archive is damaged, is too large, or holds files that are not those of a run; another command unpacks it, or trains
        the older run; the run directory cannot be written.
    """
    source, update = archive_of(path, folder), newest(path, folder)
    if not source.exists() or _has_reached(path, update):
        return None
    with _reading(source) as archive:
        contents = _files_in(source, archive)
    try:
        with _held(path.with_name(f".{path.name}.unpacking")) as half:
            if _has_reached(path, update):  # another command has unpacked it meanwhile
                return None
            for name, content in contents.items():
                write_bytes(half / name, content)
            if config is not None:
                _put_paths_back(half / CONFIG, asdict(config))
            aside = _move_aside(path)
            half.rename(path)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(f"{path} cannot be written ({reason}): free space there, and repeat the command", code=1) from error
    return Unpacked(update, aside)


def _has_reached(path: Path, update: int) -> bool:
    return path.exists() and _reached(path) >= update


@contextmanager
def _held(folder: Path) -> Iterator[Path]:
    """Lock a folder, yield the path of a new folder inside, and remove both, with what a process that was killed has left there.

    Raises:
      InUse: another command holds the lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    directory, inside = RunDirectory(folder), folder / "run"
    directory.lock()
    try:
        shutil.rmtree(inside, ignore_errors=True)
        yield inside
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        directory.release()


@contextmanager
def _reading(source: Path) -> Iterator[tarfile.TarFile]:
    """Open an archive. Errors while it is read become a UsageError that names it."""
    try:
        with tarfile.open(source) as archive:
            yield archive
    except (tarfile.TarError, lzma.LZMAError, EOFError, OSError) as error:
        raise UsageError(f"{source} is damaged ({type(error).__name__}): restore or remove it", code=1) from error


def _files_in(source: Path, archive: tarfile.TarFile) -> dict[str, bytes]:
    """Return the content of every file in an archive by name."""
    members = archive.getmembers()
    _check(source, members)
    files = ((member, archive.extractfile(member)) for member in members)
    return {member.name: file.read() for member, file in files if file is not None}


def _check(source: Path, members: list[tarfile.TarInfo]) -> None:
    for member in members:
        first, *rest = member.name.split("/")
        if not member.isfile() or first not in (CONFIG, ENVIRONMENT, METRICS, CHECKPOINTS) or ".." in rest:
            raise UsageError(f"{source} holds '{member.name}', which is no file of a run: remove the archive", code=1)
    if (size := sum(member.size for member in members)) > 10 * LARGEST:
        raise UsageError(f"{source} unpacks to {size:,} bytes, of at most {10 * LARGEST:,}: remove the archive", code=1)


def _put_paths_back(path: Path, planned: Mapping[str, Any]) -> None:
    """Give the settings of a `config.json` that are paths their values of this machine. A digest in the checkpoints protects the data."""
    kept = parsed_object(path.read_text(errors="replace")) if path.exists() else None
    if kept is not None:
        write_bytes(path, json.dumps(_with_paths(kept, planned), indent=2).encode())


def _with_paths(kept: Any, planned: Any) -> Any:
    if isinstance(kept, Mapping) and isinstance(planned, Mapping):
        return {name: _with_paths(value, planned.get(name)) for name, value in kept.items()}
    return str(planned) if isinstance(planned, Path) and kept is not None else kept


def _move_aside(path: Path) -> Path | None:
    """Move a run directory to the first free name beside it, if there is one. Return where it is.

    Raises:
      UsageError: another command is at work in the directory.
    """
    if not path.exists():
        return None
    aside = next(free for n in count(1) if not (free := path.with_name(f"{path.name}.{n}{OLDER}")).exists())
    directory = RunDirectory(path)
    directory.lock()
    try:
        return path.rename(aside)
    finally:
        directory.release()


def _reached(path: Path) -> int:
    """Return the update that a run directory has reached: of its result, of its failure, or of its newest intact checkpoint."""
    ends = [number_in(path / RESULT, "updates"), number_in(path / FAILURE, "update")]
    whole = (update for update in updates_in(path / CHECKPOINTS) if _checkpoint(path, update) is not None)
    return max(*ends, next(whole, 0))


def number_in(path: Path, name: str, missing: int = 0) -> int:
    """Return a whole number of a JSON object in a file; `missing` if there is no such file, object or number."""
    found = (parsed_object(path.read_text(errors="replace")) or {}).get(name) if path.exists() else None
    return found if isinstance(found, int) else missing


def _newest_of(names: Iterable[str]) -> int:
    """Return the update of the newest checkpoint among the files of an archive; 0 if there is none."""
    found = (re.fullmatch(rf"{CHECKPOINTS}/([0-9]+)/{re.escape(SEAL)}", name) for name in names)
    return max((int(one[1]) for one in found if one is not None), default=0)


def _contents(path: Path, warn: Callable[[str], None]) -> dict[str, bytes]:
    """Return the files of an archive by name, without paths of this machine. Only checkpoints that match their seals are among them."""
    found = {name: json.dumps(anonymous(json.loads((path / name).read_bytes())), indent=2).encode() for name in (CONFIG, ENVIRONMENT)}
    if (path / METRICS).exists():  # else the checkpoint has them
        found[METRICS] = (path / METRICS).read_bytes()
    for update in sorted(updates_in(path / CHECKPOINTS)):
        checkpoint = _checkpoint(path, update)
        if checkpoint is None:
            warn(f"the checkpoint of update {update:,} in {path} is damaged: it is not packed")
        else:
            found |= {f"{CHECKPOINTS}/{update}/{name}": content for name, content in _for_others(checkpoint).items()}
    return found


def _checkpoint(path: Path, update: int) -> dict[str, bytes] | None:
    """Return the files of a checkpoint of a run by name. Return None if it has no seal, differs from it, or belongs to another run."""
    folder = path / CHECKPOINTS / str(update)
    try:
        mine = json.loads((path / CONFIG).read_bytes()).get(RUN, "")
        return {name: (folder / name).read_bytes() for name in (SEAL, *intact(folder, mine).files)}
    except (Damaged, OSError, ValueError, AttributeError, RecursionError):
        return None


def _for_others(checkpoint: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return an intact checkpoint without paths of this machine. Its seal has new digests only for the files that may contain one."""
    changed = {name: anonymous(part.decode()).encode() for name, part in checkpoint.items() if Path(name).name == COMMITTED}
    seal = json.loads(checkpoint[SEAL])
    seal["files"] |= {name: hashlib.sha256(part).hexdigest() for name, part in changed.items()}
    return {**checkpoint, **changed, SEAL: json.dumps(seal).encode()}
