"""Training in the process of a unit, with an outcome for each run. Errors that a user can correct become outcomes, not exceptions."""

import traceback
from collections.abc import Sequence
from typing import Literal, NamedTuple

from lrpt.devices import hardware, parallel, processes
from lrpt.engines.jobs import Unit
from lrpt.errors import RemoteFailure, UsageError
from lrpt.runs.console import Console
from lrpt.runs.environment import record_command
from lrpt.runs.imports import import_module
from lrpt.runs.run_directory import InUse
from lrpt.training.loop import SomeFailed, check, fit_all

How = Literal["finished", "failed", "busy", "stopped", "lost"]


class Outcome(NamedTuple):
    """Outcome of the training of a run.

    Attributes:
      how: finished; failed (an error of the run: another try would fail again); busy (another command is at work in its directory); stopped
        (by a signal, with a checkpoint); lost (its process, its node, or a process that shares the model).
      reason: one line.
      node: whether the whole node was lost, which is not the fault of the run.
    """

    how: How
    reason: str = ""
    node: bool = False


def train(unit: Unit) -> list[Outcome]:
    """Train the runs of a unit from wherever they stand. Return an outcome for each."""
    several = len(unit.jobs)
    try:
        record_command(unit.command)
        _import(unit)
        processes.join(unit.distributed)
        _request_devices(unit)
        fit_all(unit.jobs, names=unit.names, devices=unit.devices, console=Console(quiet=True))
        processes.leave()
    except SomeFailed as error:
        return [_failure(error.errors[job.path]) if job.path in error.errors else Outcome("finished") for job in unit.jobs]
    except KeyboardInterrupt as error:
        return [Outcome("stopped", str(error))] * several
    except Exception as error:
        return [_failure(error)] * several
    return [Outcome("finished")] * several


def _import(unit: Unit) -> None:
    for name in unit.imports:
        import_module(name)


def _request_devices(unit: Unit) -> None:
    config = unit.jobs[0].config
    parallel.request_devices(unit.devices, len(unit.jobs), config.train.batch_size, config.dense_width)


def _failure(error: Exception) -> Outcome:
    """Return the outcome of a run that raised something."""
    line = " ".join(str(error).split())
    if isinstance(error, InUse):
        return Outcome("busy", line)
    if isinstance(error, UsageError):
        return Outcome("failed", line)
    if isinstance(error, RemoteFailure) or processes.has_lost_another(error):
        return Outcome("lost", f"another process of the run is lost ({line[:100]})")
    if isinstance(error, OSError):
        return Outcome("failed", f"{error.strerror or error} ({error.filename or 'no file'}): put that right, and repeat the command")
    if hardware.is_out_of_memory(error):
        return Outcome("failed", f"out of memory ({line[:100]}): choose a smaller model, batch or data set")
    traceback.print_exc()
    return Outcome("failed", f"{type(error).__name__}: {line}")


def check_programs(units: Sequence[Unit]) -> str | None:
    """Check, without writing anything, that each unit can be trained. Return the error of the first that cannot, or None.

    The error names the first run of the unit, unless there is no other unit.
    """
    for unit in units:
        try:
            _import(unit)
            _request_devices(unit)
            check(unit.jobs, unit.names, unit.devices)
        except UsageError as error:
            return f"{unit.paths[0].name}: {error}" if len(units) > 1 else str(error)
    return None
