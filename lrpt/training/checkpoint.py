"""The one file that knows of orbax: checkpoints that are either whole or named as damaged.

Orbax never lists a half-written checkpoint, but it restores a flipped bit without a word, casts a changed dtype, and raises half a dozen
unrelated exceptions for damaged metadata. So every checkpoint carries a SHA-256 of each array, and anything that does not match is passed
over.
"""

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers as policies

from lrpt.errors import UsageError


class Restored(NamedTuple):
    """A checkpoint that is intact: its update, its arrays, and what was noted beside them."""

    update: int
    state: Any
    notes: dict[str, Any]


class Checkpoints:
    """The checkpoints of one run: the two latest, and the one with the lowest loss.

    Args:
      path: the directory that holds them, one folder for each update.
      warn: is told of every checkpoint that is passed over.
    """

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self.path = path.absolute()
        self.warn = warn
        self._manager: ocp.CheckpointManager | None = None

    @property
    def manager(self) -> ocp.CheckpointManager:
        """Made at first use: looking for checkpoints must not leave a directory behind."""
        if self._manager is None:
            self._manager = ocp.CheckpointManager(self.path, options=_options())
        return self._manager

    def updates(self) -> list[int]:
        """The updates of which there is a finished checkpoint, newest first."""
        return sorted(self.manager.all_steps(), reverse=True) if self.path.is_dir() else []

    def save(self, update: int, state: Any, notes: dict[str, Any], loss: float) -> None:
        """Writes a checkpoint and waits until it is on disk; a damaged or older one of the same update is replaced.

        Raises:
          OSError: the disk is full or not writable. Earlier checkpoints stay.
        """
        items = ocp.args.Composite(state=ocp.args.StandardSave(state), notes=ocp.args.JsonSave({**notes, "sha256": digests(state)}))
        try:
            if update in self.manager.all_steps():
                self.manager.delete(update)
            self.manager.save(update, args=items, metrics={"loss": loss}, force=True)
            self.manager.wait_until_finished()
        except OSError:
            raise
        except Exception as error:
            raise OSError(f"the checkpoint of update {update} could not be written to {self.path}: {one_line(error)}") from error

    def restore(self, template: Any, update: int) -> Restored:
        """The checkpoint of `update`, in the shapes and dtypes of `template`.

        Raises:
          Damaged: it cannot be read, or is not what was saved, or does not fit.
        """
        items = ocp.args.Composite(state=ocp.args.StandardRestore(template), notes=ocp.args.JsonRestore())
        try:
            with _silent():
                found = self.manager.restore(update, args=items)
            notes = dict(found["notes"])
            expected = notes.pop("sha256")
        except Exception as error:
            raise Damaged(one_line(error)) from error
        wrong = [name for name, digest in digests(found["state"]).items() if expected.get(name) != digest]
        if wrong:
            raise Damaged(f"the contents of {wrong[0]} are not what was saved")
        return Restored(update, found["state"], notes)

    def latest(self, template: Any) -> Restored | None:
        """The newest checkpoint that is intact, or None where there is none at all.

        Raises:
          UsageError: there are checkpoints, and every one is damaged.
        """
        updates = self.updates()
        for update in updates:
            try:
                return self.restore(template, update)
            except Damaged as error:
                self.warn(f"the checkpoint of update {update} in {self.path} is damaged ({error}); trying the one before")
        if updates:
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


class Damaged(Exception):
    """A checkpoint that cannot be trusted."""


def digests(tree: Any) -> dict[str, str]:
    """SHA-256 of dtype, shape and bytes of every array, by path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): _digest(np.asarray(leaf)) for path, leaf in leaves}


def one_line(error: BaseException) -> str:
    """The first line of an exception's message, or its name where it has none."""
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:200]


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes()).hexdigest()


def _options() -> ocp.CheckpointManagerOptions:
    best = policies.BestN(get_metric_fn=lambda metrics: metrics["loss"], reverse=True, n=1)
    return ocp.CheckpointManagerOptions(
        preservation_policy=policies.AnyPreservationPolicy([policies.LatestN(2), best]),
        enable_async_checkpointing=False,
        cleanup_tmp_directories=True,
    )


@contextmanager
def _silent() -> Iterator[None]:
    """Orbax logs a warning for everything it finds amiss; here that is said once, in one line."""
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
