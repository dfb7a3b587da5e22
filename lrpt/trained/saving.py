"""Directories of networks whose variables were changed after training: `config.json`, `model.npz` and `weights.json`, and no metrics."""

import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lrpt.errors import UsageError
from lrpt.runs import weights
from lrpt.runs.files import sync, write_json
from lrpt.runs.run_directory import CONFIG, RUN

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
        _check_free(directory)
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


def _check_free(directory: Path) -> None:
    if directory.is_dir() and any(directory.iterdir()):
        kind = "a run" if (directory / CONFIG).exists() else "files"
        raise UsageError(f"{directory} holds {kind}: name a new or an empty directory")
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file: name a new or an empty directory")
