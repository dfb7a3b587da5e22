"""Directories of networks whose variables were changed after training: `config.json`, `model.npz` and `weights.json`, and no metrics."""

import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lrpt.errors import UsageError
from lrpt.runs import weights
from lrpt.runs.files import check_directory, sync, write_json
from lrpt.runs.layout import CONFIG, RUN

ORIGIN = "origin"
"""The field of `weights.json` with the identifier of the run that the network was loaded from."""


def write_network(directory: Path, identity: Mapping[str, Any], content: bytes, metadata: Mapping[str, Any]) -> None:
    """Write a directory that `lrpt.load` reads. It appears under its name by one rename, so it is complete or absent.

    It gets an identifier of its own, so that no result or checkpoint of the run is taken for one of these weights.

    Args:
      directory: a new or empty directory.
      identity: the content of the run's `config.json`.
      content: packed arrays.
      metadata: their metadata, see `lrpt.runs.weights`.

    Raises:
      UsageError: the directory holds files, or cannot be written.
    """
    temporary = directory.absolute().with_name(f".{directory.absolute().name}.{os.getpid()}")
    try:
        check_free("directory", directory)
        temporary.mkdir(parents=True)
        write_json(temporary / CONFIG, {**identity, RUN: uuid.uuid4().hex})
        weights.keep(temporary, content, {**metadata, ORIGIN: identity.get(RUN)})
        if directory.exists():
            directory.rmdir()  # it is empty; Windows renames to no name that exists
        temporary.rename(directory)
        sync(directory.absolute().parent)
    except OSError as error:
        raise UsageError(f"{directory} cannot be written ({error.strerror}): name another directory", code=1) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_free(flag: str, directory: Path) -> None:
    """Check that a directory can be written, and is new or empty, so that nothing is overwritten.

    Raises:
      UsageError: it cannot, or is not. `flag` is the option that names it.
    """
    check_directory(flag, directory)
    if directory.is_dir() and any(directory.iterdir()):
        kind = "a run" if (directory / CONFIG).exists() else "files"
        raise UsageError(f"{flag} is {directory}, which holds {kind}: name a new or an empty directory")
