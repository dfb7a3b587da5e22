"""Weights that are kept with a result: `model.npz`, and `weights.json` with its digest and what a network needs to know of its task."""

import hashlib
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from lrpt.errors import UsageError
from lrpt.runs.files import read_object, write_bytes, write_json

MODEL, METADATA = "model.npz", "weights.json"


def are_kept(directory: Path) -> bool:
    """Return whether a directory holds weights."""
    return (directory / METADATA).exists()


def pack(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return a compressed .npz of named arrays; equal arrays give equal bytes."""
    content = BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    return content.getvalue()


def keep(directory: Path, content: bytes, metadata: Mapping[str, Any]) -> None:
    """Write packed arrays and their metadata. The metadata come last, so that a death in between shows as another digest."""
    write_bytes(directory / MODEL, content)
    write_json(directory / METADATA, {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content), **metadata})


def remove(directory: Path) -> None:
    """Remove the weights of a result that has changed."""
    for name in (METADATA, MODEL):
        (directory / name).unlink(missing_ok=True)


def metadata_of(directory: Path) -> dict[str, Any]:
    """Return the metadata of the weights in a directory.

    Raises:
      UsageError: the file is damaged.
    """
    path = directory / METADATA
    try:
        found = read_object(path)
        return {**found, "sha256": str(found["sha256"]), "update": int(found["update"]), "task": dict(found["task"])}
    except (OSError, ValueError, TypeError, KeyError):
        raise UsageError(f"{path} is damaged: restore it, or collect the run again", code=1) from None


def check_digest(directory: Path) -> None:
    """Raise a UsageError unless the weights are those that were kept."""
    path, wanted = directory / MODEL, metadata_of(directory)["sha256"]
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): restore it, or collect the run again", code=1) from None
    if found != wanted:
        digests = f"its SHA-256 is {found[:12]}..., not {wanted[:12]}..."
        raise UsageError(f"{path} was changed ({digests}): restore it, or collect the run again", code=1)
