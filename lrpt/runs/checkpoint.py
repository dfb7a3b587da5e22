"""The one file that knows of orbax: checkpoints that are either whole or named as damaged.

Orbax never lists a half-written checkpoint, but it restores a flipped bit without a word, casts a changed dtype, and answers other damage
with half a dozen unrelated exceptions and with tracebacks of its threads. So a checkpoint is sealed as soon as it is written: with the
SHA-256 of each file, the shape and dtype of each array. What has no seal, or differs from it, is passed over, and orbax never reads it.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import jax
import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers as policies

from lrpt.errors import UsageError
from lrpt.runs.run_directory import write_json

SEAL = "seal.json"

# Orbax logs whatever it finds amiss, with tracebacks, from several threads; here that is said once, in one line.
logging.getLogger("absl").addFilter(lambda record: "orbax" not in record.pathname)


class Restored(NamedTuple):
    """A checkpoint that is intact: its update, its arrays, and what was noted beside them."""

    update: int
    state: Any
    notes: dict[str, Any]


class Checkpoints:
    """The checkpoints of one run: the two latest, and the best.

    Args:
      path: the directory that holds them, one folder for each update.
      warn: is told of every checkpoint that is passed over.
      reading: nothing is written or removed, as another command may be at work.
    """

    def __init__(self, path: Path, warn: Callable[[str], None], reading: bool = False) -> None:
        self.path = path.absolute()
        self.warn = warn
        self.reading = reading
        self._best = _KeepOne()
        self._manager: ocp.CheckpointManager | None = None

    @property
    def manager(self) -> ocp.CheckpointManager:
        """Made at first use: looking for checkpoints must not leave a directory behind."""
        if self._manager is None:
            self.path.mkdir(parents=True, exist_ok=True)
            self._manager = ocp.CheckpointManager(self.path, options=_options(self._best, self.reading))
        return self._manager

    def updates(self) -> list[int]:
        """The updates of which there is a checkpoint, newest first."""
        return sorted(self.manager.all_steps(), reverse=True) if self.path.is_dir() else []

    def save(self, update: int, state: Any, notes: dict[str, Any], best: int = 0) -> None:
        """Writes a checkpoint and waits until it is on disk; a damaged or older one of the same update is replaced.

        Args:
          best: the update of the checkpoint that is kept beside the two latest.

        Raises:
          OSError: the disk is full or not writable. Earlier checkpoints stay.
        """
        items = ocp.args.Composite(state=ocp.args.StandardSave(state), notes=ocp.args.JsonSave(notes))
        self._best.update = best
        try:
            self._reserve(state)
            if update in self.manager.all_steps():
                self.manager.delete(update)
            self.manager.save(update, args=items, force=True)
            self.manager.wait_until_finished()
            write_json(self.path / str(update) / SEAL, {"files": _digests(self.path / str(update)), "arrays": _arrays(state)})
        except Exception as error:
            raise OSError(f"the checkpoint of update {update} could not be written to {self.path} ({_reason(error)})") from error

    def _reserve(self, state: Any) -> None:
        """Raises an OSError where there is no space for a checkpoint: of that, threads of orbax would print tracebacks."""
        size = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
        with TemporaryFile(dir=self.manager.directory) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, 2 * size + 2**20)  # orbax writes arrays twice, and descriptions of them

    def restore(self, template: Any, update: int) -> Restored:
        """The checkpoint of `update`, in the shapes and dtypes of `template`.

        Raises:
          Misfit: it is what was saved, and that is not of these shapes and dtypes.
          Damaged: it is missing or unfinished, or is not what was saved.
        """
        self._check_seal(template, update)
        items = ocp.args.Composite(state=ocp.args.StandardRestore(template), notes=ocp.args.JsonRestore())
        try:
            found = self.manager.restore(update, args=items)
        except Exception as error:
            raise Damaged(_reason(error)) from error
        return Restored(update, found["state"], dict(found["notes"]))

    def _check_seal(self, template: Any, update: int) -> None:
        path = self.path / str(update)
        try:
            seal = json.loads((path / SEAL).read_text())
            files, arrays = dict(seal["files"]), dict(seal["arrays"])
        except FileNotFoundError as error:
            raise Damaged("it was not finished") from error
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise Damaged(f"{SEAL} cannot be read") from error
        found = _digests(path)
        if wrong := [name for name, digest in files.items() if found.get(name) != digest]:
            raise Damaged(f"the contents of {wrong[0]} are not what was saved")
        if arrays != _arrays(template):
            raise Misfit("its arrays are not of the shapes and dtypes that the model has")

    def latest(self, template: Any) -> Restored | None:
        """The newest checkpoint that is intact, or None where there is none at all.

        Raises:
          UsageError: there are checkpoints, and every one is damaged, or does not fit.
        """
        misfits = 0
        for update in self.updates():
            try:
                return self.restore(template, update)
            except Damaged as error:
                misfit = isinstance(error, Misfit)
                misfits += misfit
                how = "does not fit" if misfit else "is damaged"
                self.warn(f"the checkpoint of update {update} in {self.path} {how} ({error}) and is passed over")
        if misfits:
            raise UsageError(
                f"no checkpoint in {self.path} fits: another version of this library wrote them, or another configuration; "
                f"start over in another --workdir",
                code=1,
            )
        if self.updates():
            raise UsageError(
                f"every checkpoint in {self.path} is damaged: remove that directory to start over, or name another --workdir", code=1
            )
        return None

    def remove_after(self, update: int) -> None:
        """Removes the checkpoints of later updates: they were passed over, and training will write them anew."""
        for later in [u for u in self.updates() if u > update]:
            self.manager.delete(later)

    def close(self) -> None:
        """Ends what works in the background."""
        if self._manager is not None:
            self._manager.close()
            self._manager = None


class Damaged(Exception):
    """A checkpoint that cannot be trusted."""


class Misfit(Damaged):
    """One that can be, but whose arrays are not those that are asked for."""


def _reason(error: Exception) -> str:
    """The first line of an exception's message, or its name where it has none."""
    text = str(getattr(error, "strerror", None) or error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:200]


def _digests(path: Path) -> dict[str, str]:
    """SHA-256 of every file below `path` but the seal, by name."""
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and file != path / SEAL]
    return {file.relative_to(path).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def _arrays(tree: Any) -> dict[str, str]:
    """'float32[4, 2]' for every array, by path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): f"{leaf.dtype}{list(leaf.shape)}" for path, leaf in leaves}


class _KeepOne:
    """Keeps the checkpoint of one update. (Orbax's own policy for the best one keeps another one of equal loss.)"""

    update = 0

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> Sequence[bool]:
        del context
        return [checkpoint.step == self.update for checkpoint in checkpoints]


def _options(best: _KeepOne, reading: bool) -> ocp.CheckpointManagerOptions:
    """Of several processes only the first comes here, so that orbax must not wait for the others, nor make the directory for them."""
    return ocp.CheckpointManagerOptions(
        create=False,
        multiprocessing_options=ocp.options.MultiprocessingOptions(primary_host=0, active_processes={0}),
        preservation_policy=policies.AnyPreservationPolicy([policies.LatestN(2), best]),
        enable_async_checkpointing=False,
        cleanup_tmp_directories=not reading,
    )
