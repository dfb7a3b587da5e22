"""Start of a run: whether its directory can hold it, whether it is finished already, and the state from which it trains."""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax

from lrpt.devices.processes import on_primary
from lrpt.errors import UsageError
from lrpt.parametrizations import FROZEN
from lrpt.runs import named_arrays
from lrpt.runs.checkpoint import Checkpoints, Restored
from lrpt.runs.configuration import defaults
from lrpt.runs.run_directory import RunDirectory
from lrpt.training import origin
from lrpt.training.selection import reason_to_stop
from lrpt.training.setup import Setup
from lrpt.training.step import TrainState


def check(setup: Setup, directory: RunDirectory, start: str | None = None) -> None:
    """Check that a directory can hold a run: its configuration and its start arrays.

    Args:
      setup: the run.
      directory: its directory.
      start: SHA-256 of the start arrays, if their file is still to be written.

    Raises:
      UsageError: the directory holds another run, or files that are damaged.
    """
    directory.check(setup.identity, defaults(setup.config))
    before = directory.start_digest()
    if before is not None:
        origin.check_start(setup.path, before, start or origin.start_digest(setup.config.train.start))


def is_complete(setup: Setup, result: Mapping[str, Any]) -> bool:
    """Return whether a result has the number of updates that the configuration asks for, or met another of its rules to stop."""
    train, best = setup.config.train, {"update": result["best_update"], "loss": result["metrics"]["valid"]["loss"]}
    is_below = train.stop_below is not None and best["loss"] < train.stop_below
    if is_below and result["stopped"] != "criterion" and not setup.selection.counts(best["update"]):
        best["loss"] = math.inf  # a loss without the final settings meets no criterion
    return result["stopped"] == "annealed" or reason_to_stop(train, result["updates"], best, annealed=False) is not None


def check_file(setup: Setup, result: Mapping[str, Any]) -> None:
    """Raise a UsageError if the user's file, or the data of a task of the user's, are no longer those that a finished run has read.

    A published file is compared with its checksum whenever it is read. Data that are gone are not needed any more.
    """
    before, file = origin.digests(result.get("data", {})), getattr(setup.config.data, "file", None)
    if before and isinstance(file, Path) and on_primary(file.exists):
        origin.check_data(setup.path, before, setup.task, "name another --workdir")
    elif before.keys() == {origin.SPLITS}:  # a task of the user's: see `origin.with_digest`
        with suppress(OSError):
            origin.check_data(setup.path, before, setup.task, "name another --workdir")


def newest_checkpoint(
    directory: RunDirectory, checkpoints: Checkpoints, initial: TrainState, warn: Callable[[str], None]
) -> Restored | None:
    """Return the newest intact checkpoint, or None if there is none, with a warning if training got further before.

    Raises:
      UsageError: there is none, but a result, which a start at update 0 would remove.
    """
    found = checkpoints.latest(initial)
    if found is not None:
        return found
    if (result := directory.result()) is not None:
        raise UsageError(
            f"{directory.path} holds the result of {result['updates']} updates and no checkpoint to resume from: restore its checkpoints, "
            f"remove result.json to start again at update 0, or name another --workdir",
            code=1,
        )
    evaluated = sorted({line["update"] for line in directory.metrics()})
    if len(evaluated) > 1:  # a run that was killed before its first checkpoint may have one evaluation
        warn(f"{directory.path} has metrics up to update {evaluated[-1]} and no checkpoint: starts again at update 0")
    return None


def with_start_file(setup: Setup, initial: TrainState) -> tuple[TrainState, str | None]:
    """Return the initial state with the arrays of the start file, and their SHA-256; without a start file, the initial state and None.

    Raises:
      UsageError: the arrays do not fit the network, or it adapts a trained network and no start file is given.
    """
    file, collections = setup.config.train.start, initial.collections or {}
    frozen = {name: tree for name, tree in collections.items() if name == FROZEN}
    if file is None:
        if frozen:
            raise UsageError(
                f"{setup.config.model.label} adapts a trained network: give its file as train.start, or use experiments.fine_tune"
            )
        return initial, None
    found = on_primary(named_arrays.load, file, {**initial.params, **frozen})
    params = {name: tree for name, tree in found.items() if name not in frozen}
    collections = {**collections, **{name: found[name] for name in frozen}}
    opt_state = jax.device_get(setup.config.optim.build().init(params))
    state = initial._replace(params=params, opt_state=opt_state, collections=collections or None)
    return state, named_arrays.digest(named_arrays.to_named(found))


def check_grid(setup: Setup, update: int) -> None:
    """Raise a UsageError if the evaluation of a checkpoint between two regular evaluations would count in patience or halvings.

    A run may have ended there, and a longer training resumes from it. An uninterrupted run is not evaluated there.
    """
    train, halve_after = setup.config.train, setup.config.optim.halve_after
    if (train.patience is not None or halve_after is not None) and update % train.evaluate_every:
        raise UsageError(
            f"{setup.path} ended at update {update}, no multiple of train.evaluate_every = {train.evaluate_every}, and its evaluation "
            f"there would count in patience or halvings: remove its result.json and checkpoints/{update} to resume before it, or "
            f"name another --workdir",
            code=1,
        )
