"""Estimates on paper from measured times: many runs on many nodes, and the rate that a core reaches."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.scaling.measured import engine_seconds, medians
from lrpt.errors import UsageError
from lrpt.runs.console import Console

DAY, HOUR = 86400, 3600
LOCAL, RAY = "local, 1 process", "ray, 1 node"


def read(path: Path) -> dict[str, Any]:
    """Return the measurements of a file.

    Raises:
      UsageError: the file was not written by the subcommand measure.
    """
    try:
        report = json.loads(path.read_text())
        for name in (LOCAL, RAY):
            engine_seconds(report, name)
        seconds_of_a_run(report)
    except (OSError, ValueError, LookupError, TypeError):
        raise UsageError(f"measured is {path}: expected a file that `python -m experiments.scaling measure --json` wrote") from None
    return report


def seconds_of_a_run(report: Mapping[str, Any]) -> float:
    """Return the seconds of all updates of the small model on a core of its own; its evaluations are not counted.

    A process that is bound to a core needs as long as its processor time if nothing else uses the core.
    """
    return report["updates"] * medians(report["processes"]["small, 1"]).cpu


def teraflops(report: Mapping[str, Any]) -> float:
    """Return the TFLOP/s that one core reaches, with six operations for each parameter, example and step."""
    return report["operations"] / medians(report["processes"]["small, 1"]).cpu / 1e12


def hours(run: float, engine: float, runs: int, places: int) -> float:
    """Return the hours of equal runs, of which `places` train side by side."""
    return math.ceil(runs / places) * (run + engine) / HOUR


def show(report: Mapping[str, Any], runs: int, nodes: int, cores: Sequence[int], console: Console) -> None:
    """Print runs a day and core, and the hours of many runs on many nodes."""
    run = seconds_of_a_run(report)
    rows = []
    for name in (LOCAL, RAY):
        engine = max(engine_seconds(report, name).cpu, 0.0)
        each = [f"{hours(run, engine, runs, nodes * number):,.1f} h" for number in cores]
        rows.append([name.partition(",")[0], f"{run:,.0f}", f"{engine:.1f}", f"{DAY / (run + engine):,.0f}", *each])
    head = [f"{runs:,} runs, {nodes:,} nodes of {number} core{'s' if number > 1 else ''}" for number in cores]
    title = f"adding, preset paper, {report['updates']:,} updates; a GPU: not measured"
    console.table(["engine", "s a run", "engine s a run", "runs a day and core", *head], rows, title)
