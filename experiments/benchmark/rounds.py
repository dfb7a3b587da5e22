"""Processes of contenders, measured in turn, round after round, so that any load of the machine affects all of them."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from threading import Timer
from typing import Any, Self

from experiments.benchmark.contenders import CONTENDERS
from experiments.benchmark.workloads import ALL
from lrpt.devices.hardware import cores, visible_accelerators
from lrpt.errors import UsageError
from lrpt.runs.console import Console

Row = dict[str, Any]

PATIENCE = 600
"""Seconds in which a contender must be compiled; then it is stopped, and left out."""


class Process:
    """The process of a compiled contender.

    Raises:
      RuntimeError: the contender could not be built; the message is the last line of its output.
    """

    def __init__(self, workload: str, contender: str) -> None:
        command = [sys.executable, "-m", "experiments.benchmark.worker", workload, contender]
        flags = " ".join(CONTENDERS[contender].flags) if contender in CONTENDERS else ""
        environment = {**os.environ, "XLA_FLAGS": flags, "OMP_WAIT_POLICY": "passive", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115  # a pipe that nobody reads would block the process when it is full
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._said}
        self._process = subprocess.Popen(command, text=True, env=environment, **pipes)
        self.times: dict[str, list[dict[str, float]]] = {}
        limit = Timer(PATIENCE, self._process.kill)
        limit.start()
        try:
            self.metrics = self._answer()
        except RuntimeError:
            self.__exit__()
            raise
        finally:
            limit.cancel()
        self.measures = self.metrics.pop("measures")

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            self._process.wait()
            self._said.seek(0)
            raise RuntimeError((self._said.read().strip().splitlines() or ["it ended without a word"])[-1])
        return json.loads(line)

    def time(self, measure: str) -> None:
        """Take one measurement, and append it to `times`."""
        with suppress(BrokenPipeError):  # the process has ended: `_answer` says why
            self._process.stdin.write(f"{measure}\n")  # type: ignore[union-attr]
            self._process.stdin.flush()  # type: ignore[union-attr]
        self.times.setdefault(measure, []).append(self._answer())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._said.close()


def measure(workload: str, contenders: Sequence[str], rounds: int, console: Console) -> list[Row]:
    """Time all contenders that fit a workload. Return a row for each contender and measurement.

    Raises:
      UsageError: the process that measures the machine's peak cannot be started.
    """
    with ExitStack() as stack:
        processes: dict[str, Process] = {}
        names = [*(name for name in contenders if takes_part(name, workload)), "peak"]
        with ThreadPoolExecutor(max(1, cores() // 2)) as pool:  # compiling has threads of its own
            started = {name: pool.submit(Process, workload, name) for name in names}
        for name, process in started.items():
            try:
                processes[name] = stack.enter_context(process.result())
            except RuntimeError as error:
                if name == "peak":
                    raise UsageError(f"{workload}: the peak of this machine cannot be measured: {error}", code=1) from None
                console.warn(f"{workload}: {name} is left out: {error}")
        for _ in range(rounds):
            for process in processes.values():
                for name in process.measures:
                    process.time(name)
    peak = processes.pop("peak")
    operations = peak.metrics["flops"] / _median(peak, "train", "ms") * 1e3
    return [_row(workload, name, process, m, operations) for name, process in processes.items() for m in process.measures]


def takes_part(name: str, workload: str) -> bool:
    """Return whether a contender supports the workload and this machine."""
    contender = CONTENDERS[name]
    return contender.fits(ALL[workload]) and (not contender.accelerated or bool(visible_accelerators()))


def _median(process: Process, measure: str, name: str) -> float:
    return statistics.median(time[name] for time in process.times[measure])


def _row(workload: str, contender: str, process: Process, measure: str, peak: float) -> Row:
    metrics = dict(process.metrics)
    if measure == "forward":
        metrics = {name: metrics[name] for name in ("parameters", "flops", "flags")} | {"flops": metrics["flops"] / 3}
    times = [time["ms"] for time in process.times[measure]]
    return {
        "workload": workload,
        "contender": contender,
        "measure": measure,
        "median_ms": statistics.median(times),
        "min_ms": min(times),
        "max_ms": max(times),
        "cpu_ms": _median(process, measure, "cpu_ms"),
        "page_faults": _median(process, measure, "page_faults"),
        "peak_flops_per_second": peak,
        "share_of_peak": metrics["flops"] / (statistics.median(times) / 1e3) / peak,
        **metrics,
    }
