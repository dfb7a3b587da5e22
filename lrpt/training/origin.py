"""SHA-256 digests of the data and of the start arrays of a run. A resumed run is refused if its own are different."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lrpt.errors import UsageError
from lrpt.files import MOST
from lrpt.runs.named_arrays import SLACK, digest, load_arrays
from lrpt.tasks.task import Task

TEXT, SPLITS = DIGESTS = ("sha256", "sha256_of_splits")
"""Entries of a task's metadata that identify its data. Runs recorded the first alone before there was the second."""


def digests(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the entries that identify the data, from the metadata of a task, a checkpoint, or a result."""
    return {name: metadata[name] for name in DIGESTS if metadata.get(name) is not None}


def with_digest(task: Task) -> Task:
    """Return a task whose metadata identify its data, by the SHA-256 of the arrays of all splits if the task names no other."""
    return task if digests(task.metadata) else replace(task, metadata={**task.metadata, SPLITS: _digest_of(task)})


def _digest_of(task: Task) -> str:
    content = hashlib.sha256()
    for name, split in sorted(task.splits.items()):
        content.update(f"{name} {split.size}".encode())
        for leaf in jax.tree.leaves((split.arrays, split.lengths)):
            is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            array = np.asarray(jax.random.key_data(leaf) if is_key else leaf)
            if not array.dtype.hasobject:
                content.update(f"{array.dtype} {array.shape}".encode())
                content.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)  # no copy of the data
    return content.hexdigest()


def check_data(path: Path, before: Mapping[str, Any], task: Task, advice: str) -> None:
    """Raise a UsageError, which ends with the advice, if a run was trained on other data than those of this task.

    Args:
      path: the run directory.
      before: the recorded entries `DIGESTS`; one that is missing is not compared.
      task: the task that is to be used with the run.
      advice: what to do if the data cannot be restored.
    """
    check_text(path, before.get(TEXT), task, advice)
    splits, now = before.get(SPLITS), task.metadata.get(SPLITS)
    if splits not in (None, now):
        of_file = task.metadata.get(TEXT) is not None
        other = f"splits or lengths of sequences than {name_of_text(task.metadata)} has" if of_file else "data than its task has"
        what = f"other {other} now (SHA-256 {splits}, not {now})"
        raise UsageError(f"{path} holds a run on {what}: restore {'the file' if of_file else 'them'}, or {advice}", code=1)


def check_text(path: Path, before: str | None, task: Task, advice: str, name: str = "") -> None:
    """Raise a UsageError, which ends with the advice, if a run was trained on another text than the text of this task.

    Args:
      path: the run directory.
      before: SHA-256 of its text, if it has one.
      task: the task that is to be used with the run.
      advice: what to do if the text cannot be restored.
      name: recorded name of its text, such as 'python 3.11.7'; '' if none is known.
    """
    now = task.metadata.get(TEXT)
    if before not in (None, now):
        text, found = f"a text with SHA-256 {before}{f' ({name})' if name else ''}", f"{name_of_text(task.metadata)} has {now}"
        raise UsageError(f"{path} holds a run on {text}, and {found}: restore the text, or {advice}", code=1)


def name_of_text(metadata: Mapping[str, Any]) -> str | None:
    """Return the name of a text or of music from the metadata of a task; None if the task has neither."""
    return metadata.get("text", metadata.get("music"))


def check_start(path: Path, before: str, now: str | None) -> None:
    """Raise a UsageError if a run began with other start arrays.

    Args:
      path: the run directory.
      before: SHA-256 of its start arrays.
      now: SHA-256 of the given start arrays; None if their file is gone, which a run with checkpoints does not read.
    """
    if now not in (None, before):
        raise UsageError(
            f"{path} holds a run that started from other arrays (SHA-256 {before[:12]}..., not {now[:12]}...): "
            f"start from the same network to resume it, or name another --workdir"
        )


def start_digest(file: Path | None) -> str | None:
    """Return the SHA-256 of the arrays in a start file, or None if it is gone.

    Raises:
      UsageError: the file is damaged.
    """
    if file is None or not file.exists():
        return None
    return digest(load_arrays(file, max(MOST, file.stat().st_size + SLACK)))
