"""Checkpoints that are complete or absent; damaged ones are reported. No other file refers to orbax.

Orbax restores a flipped bit without a warning and casts a changed dtype. Other damage raises half a dozen unrelated exceptions, with
tracebacks of its threads. So every checkpoint has a seal: the SHA-256 of each file, the shape and dtype of each array, and the
identifier of its run. Orbax writes a checkpoint into a hidden folder, the seal is added there, and one rename makes the checkpoint
visible. A checkpoint that does not match its seal is skipped, and orbax never reads it.
"""

import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import jax
from jaxtyping import PyTree

from lrpt.errors import UsageError
from lrpt.runs.files import sync, write_json

SEAL = "seal.json"

LATEST = 2
"""number of checkpoints that are kept besides the best one"""

# Orbax logs errors with tracebacks from several threads. Here each error is reported once, in one line.
logging.getLogger("absl").addFilter(lambda record: "orbax" not in record.pathname)


class Restored(NamedTuple):
    """An intact checkpoint: its update, its arrays, and its metadata."""

    update: int
    state: Any
    metadata: dict[str, Any]


class Seal(NamedTuple):
    """Contents of a checkpoint: the SHA-256 of each file by its path, and dtype and shape of each array by its place in the state."""

    files: dict[str, str]
    arrays: dict[str, str]


def updates_in(path: Path) -> list[int]:
    """Return the updates that have a checkpoint in a directory, newest first."""
    folders = path.iterdir() if path.is_dir() else ()
    return sorted((int(folder.name) for folder in folders if re.fullmatch("0|[1-9][0-9]*", folder.name)), reverse=True)


class Checkpoints:
    """The checkpoints of one run: the two latest and the best.

    Args:
      path: the directory that holds them, one folder for each update.
      warn: called with a line for every checkpoint that is skipped.
      run: returns the identifier of the run. A checkpoint of another run counts as damaged; '' accepts any.
    """

    def __init__(self, path: Path, warn: Callable[[str], None], run: Callable[[], str] = str) -> None:
        self.path = path.absolute()
        self.warn = warn
        self.run = run

    def updates(self) -> list[int]:
        """Return the updates that have a checkpoint, newest first."""
        return updates_in(self.path)

    def save(self, update: int, state: PyTree, metadata: dict[str, Any], best: int = 0) -> None:
        """Write a checkpoint and wait until it is on disk. It replaces a checkpoint of the same update.

        Args:
          update: number of updates so far.
          state: pytree of arrays.
          metadata: JSON values saved with the arrays.
          best: the update whose checkpoint is kept besides the two latest.

        Raises:
          OSError: it could not be written, for example because the disk is full. Earlier checkpoints stay.
        """
        hidden = self.path / f".{update}"
        try:
            self._remove_hidden()
            self.path.mkdir(parents=True, exist_ok=True)
            self._reserve(state)
            ocp = _orbax()
            _checkpointer().save(hidden, ocp.args.Composite(state=ocp.args.StandardSave(state), notes=ocp.args.JsonSave(metadata)))
            write_json(hidden / SEAL, {"run": self.run(), "files": _digests(hidden), "arrays": _arrays(state)})
            self._show(hidden, update)
        except Exception as error:
            raise OSError(f"the checkpoint of update {update} could not be written to {self.path} ({_reason(error)})") from error
        for old in self.updates()[LATEST:]:
            if old != best:
                self._remove(old)

    def _show(self, hidden: Path, update: int) -> None:
        """Rename a checkpoint so that readers find it, when all its files are on disk. Orbax does not wait for that."""
        for entry in (*hidden.rglob("*"), hidden):
            sync(entry)
        self._remove(update)
        hidden.rename(self.path / str(update))
        sync(self.path)

    def _reserve(self, state: PyTree) -> None:
        """Raise an OSError if there is no space for a checkpoint. Without this check, threads of orbax would print tracebacks."""
        size = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
        with TemporaryFile(dir=self.path) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, 2 * size + 2**20)  # orbax writes arrays twice, and their descriptions

    def _remove(self, update: int) -> None:
        """Remove a checkpoint. It is hidden first, so that no reader finds an incomplete one."""
        if (self.path / str(update)).exists():
            removed = self.path / f".{update}.removed"
            shutil.rmtree(removed, ignore_errors=True)
            (self.path / str(update)).rename(removed)
            shutil.rmtree(removed, ignore_errors=True)

    def _remove_hidden(self) -> None:
        """Remove hidden folders of processes that died while they wrote or removed a checkpoint."""
        for folder in [*self.path.glob(".[0-9]*"), *self.path.glob("*.orbax-checkpoint-tmp*")]:
            shutil.rmtree(folder, ignore_errors=True)

    def restore(self, template: PyTree, update: int) -> Restored:
        """Return the checkpoint of `update`, with the shapes and dtypes of `template`.

        Raises:
          Misfit: the checkpoint is intact but has other shapes or dtypes.
          Damaged: it is missing, has no seal, differs from it, or belongs to another run.
        """
        if intact(self.path / str(update), self.run()).arrays != _arrays(template):
            raise Misfit("its arrays are not of the shapes and dtypes that the model has")
        ocp = _orbax()
        items = ocp.args.Composite(state=ocp.args.StandardRestore(template), notes=ocp.args.JsonRestore())
        try:
            found = _checkpointer().restore(self.path / str(update), items)
        except Exception as error:
            raise Damaged(_reason(error)) from error
        return Restored(update, found["state"], dict(found["notes"]))

    def restore_best(self, template: PyTree, update: int, otherwise: str) -> Restored | None:
        """Return the checkpoint of `update`. If it is damaged, return None and warn; `otherwise` says what happens instead."""
        try:
            return self.restore(template, update)
        except Damaged as error:
            self.warn(f"the best checkpoint, of update {update}, in {self.path} is damaged ({error}); {otherwise}")
            return None

    def latest(self, template: PyTree) -> Restored | None:
        """Return the newest intact checkpoint, or None if there is no checkpoint.

        Raises:
          UsageError: there are checkpoints, but all are damaged or do not fit. One that is removed meanwhile does not count.
        """
        errors: dict[int, Damaged] = {}
        while untried := [update for update in self.updates() if update not in errors]:  # listed anew: a trainer writes and removes them
            try:
                return self.restore(template, untried[0])
            except Damaged as error:
                if os.path.lexists(self.path / str(untried[0])):  # also a link to nowhere, which is listed again
                    errors[untried[0]] = error
                    how = "does not fit" if isinstance(error, Misfit) else "is damaged"
                    self.warn(f"the checkpoint of update {untried[0]} in {self.path} {how} ({error}) and is passed over")
        if any(isinstance(error, Misfit) for error in errors.values()):
            raise UsageError(
                f"no checkpoint in {self.path} fits: another version of this library wrote them, or another configuration; "
                f"start over in another --workdir",
                code=1,
            )
        if errors:
            raise UsageError(
                f"every checkpoint in {self.path} is damaged: remove that directory to start over, or name another --workdir", code=1
            )
        return None

    def remove_after(self, update: int) -> None:
        """Remove the checkpoints of later updates. They were skipped, and training will write them again."""
        for later in self.updates():
            if later > update:
                self._remove(later)


class Damaged(Exception):
    """A checkpoint that cannot be trusted."""


class Misfit(Damaged):
    """An intact checkpoint whose arrays do not have the requested shapes and dtypes."""


def intact(path: Path, run: str = "") -> Seal:
    """Return the seal of a checkpoint whose files match it.

    Args:
      path: the folder of the checkpoint.
      run: identifier of the run that it has to belong to; '' accepts any.

    Raises:
      Damaged: it is missing, has no seal, differs from it, or belongs to another run.
    """
    try:
        seal = json.loads((path / SEAL).read_text())
        files, arrays, owner = dict(seal["files"]), dict(seal["arrays"]), str(seal["run"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Damaged(f"{SEAL} cannot be read") from error
    try:
        found = _digests(path)
    except OSError as error:  # its trainer removes it, or its disk fails
        raise Damaged(_reason(error)) from error
    if wrong := [name for name, digest in files.items() if found.get(name) != digest]:
        raise Damaged(f"the contents of {wrong[0]} are not what was saved")
    if run and owner != run:
        raise Damaged("it belongs to another run")
    return Seal(files, arrays)


def _orbax() -> Any:
    """Import orbax, which takes as long as JAX: commands that neither write nor read checkpoints start without it."""
    import orbax.checkpoint

    return orbax.checkpoint


@cache
def _checkpointer() -> Any:
    """Return the writer and reader of checkpoints. It runs on the primary process only and waits for no other."""
    ocp = _orbax()
    alone = ocp.options.MultiprocessingOptions(primary_host=0, active_processes={0})
    handler = ocp.CompositeCheckpointHandler(
        state=ocp.StandardCheckpointHandler(multiprocessing_options=alone),
        notes=ocp.JsonCheckpointHandler(multiprocessing_options=alone),
        composite_options=ocp.CompositeOptions(multiprocessing_options=alone),
    )
    return ocp.Checkpointer(handler, multiprocessing_options=alone)


def _reason(error: Exception) -> str:
    """Return the first line of an exception's message, or its name if the message is empty."""
    text = str(getattr(error, "strerror", None) or error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:200]


def _digests(path: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below `path` except the seal, by name."""
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and file != path / SEAL]
    return {file.relative_to(path).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def _arrays(tree: PyTree) -> dict[str, str]:
    """Return dtype and shape of every array, as 'float32[4, 2]', by path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): f"{leaf.dtype}{list(leaf.shape)}" for path, leaf in leaves}
