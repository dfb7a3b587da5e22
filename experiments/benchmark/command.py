"""Training times of recurrent networks, beside common ways to train them.

    python -m experiments.benchmark                                      every workload, about an hour
    python -m experiments.benchmark --quick                              the main contenders on six workloads, about five minutes
    python -m experiments.benchmark --workloads permuted_mnist char --rounds 15 --json benchmark.json --figure benchmark.png
    python -m experiments.benchmark --from-json benchmark.json --markdown       the tables of earlier measurements

Every contender is compiled in its own process, with its own flags and threads. Contenders are then measured in turn, round after round, so
that any load of the machine affects all of them. A measurement is the mean over 0.1 s or one call, whichever is longer. The tables show
medians over the rounds, and ratios of medians. One update is forward pass, backward pass and RMSProp in float32. PyTorch takes part if it
is installed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Self

from experiments.benchmark.contenders import CONTENDERS
from experiments.benchmark.machine import describe
from experiments.benchmark.presentation import best_against_rivals, draw, markdown, table
from experiments.benchmark.rounds import measure
from experiments.benchmark.workloads import ALL, WORKLOADS
from lrpt.cli.command import leaving_with_a_line
from lrpt.cli.flags import parse_dataclass
from lrpt.errors import UsageError, check_at_least, check_choice
from lrpt.files import read_json
from lrpt.runs.console import Console
from lrpt.runs.files import write_text
from lrpt.settings import OneOf

PROGRAM = "python -m experiments.benchmark"
QUICK_WORKLOADS = ("permuted_mnist", "copy", "char", "sentences", "word_rhn_5", "vcrnn")
QUICK_CONTENDERS = ("plain", "fast-2-devices-multi-update", "fast-padded", "fast-equal-operations", "flax", "torch-2-threads")

AGAIN = "tables of complete workloads are shown, and with --json stored; the same command measures all of them again"

OF_A_REPORT = ("date", "processor", "cores", "versions", "rounds", "rows")
OF_A_ROW = ("workload", "contender", "measure", "median_ms", "min_ms", "max_ms")
"""Fields that tables and plots of earlier measurements read."""


@dataclass(frozen=True)
class Options:
    """Command-line options of the benchmark."""

    quick: bool = False
    """measure only the main contenders, three times, on six workloads"""
    workloads: Annotated[tuple[str, ...], OneOf("what to train", ALL)] = tuple(WORKLOADS)
    contenders: tuple[str, ...] = tuple(CONTENDERS)
    """which contenders take part; docs/performance.md explains the main ones"""
    rounds: int = 15
    """measurements of each contender"""
    json: Path | None = None
    """write all measurements to this file"""
    figure: Path | None = None
    """plot the training times into this PNG file"""
    from_json: tuple[Path, ...] = ()
    """show the measurements in these files instead of taking new ones"""
    markdown: bool = False
    """print the tables in Markdown"""

    def __post_init__(self) -> None:
        for name, known in (("workloads", ALL), ("contenders", CONTENDERS)):
            for value in getattr(self, name):
                check_choice(name, value, known)
        check_at_least(1, self, "rounds")

    def chosen(self) -> Self:
        """Return the options, with fewer workloads, contenders and rounds if `quick` is set.

        Raises:
          UsageError: no workload or no contender is left.
        """
        if not self.quick:
            return self
        workloads = tuple(name for name in self.workloads if name in QUICK_WORKLOADS)
        contenders = tuple(name for name in self.contenders if name in QUICK_CONTENDERS)
        for name, left, known in (("workloads", workloads, QUICK_WORKLOADS), ("contenders", contenders, QUICK_CONTENDERS)):
            if not left:
                given = ", ".join(getattr(self, name)) or "empty"
                raise UsageError(f"{name} is {given}: --quick measures only {', '.join(known)}; choose one, or leave --quick out")
        return replace(self, workloads=workloads, contenders=contenders, rounds=min(self.rounds, 3))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure contenders, or read measurements, and show them. Map errors to one line and an exit status."""
    console = Console()
    with leaving_with_a_line(console, AGAIN):
        description = (__doc__ or "").partition("\n")[0]
        options = parse_dataclass(Options, arguments, PROGRAM, description, Options())
        for path in filter(None, (options.json, options.figure)):
            if not path.parent.is_dir():
                raise UsageError(f"{path} is in no directory that exists: make {path.parent} first")
        report = _join([_read(path) for path in options.from_json]) if options.from_json else _take(options.chosen(), console)
        if options.json:
            write_text(options.json, json.dumps(report, indent=1) + "\n")
        if options.markdown:
            console.say("\n".join(markdown(report)))
        if options.figure:
            console.say(f"figure: {draw(report, options.figure)}")


def _take(options: Options, console: Console) -> dict[str, Any]:
    """Measure all workloads. Show and save the table of each workload as soon as it is complete."""
    report: dict[str, Any] = {"date": datetime.now(UTC).date().isoformat(), **describe(), "rounds": options.rounds, "rows": []}
    for workload in options.workloads:
        rows = measure(workload, options.contenders, options.rounds, console)
        report["rows"] += rows
        console.table(*table(rows), title=f"{workload}: milliseconds for an update")
        if ratio := best_against_rivals(rows):
            console.say(f"{workload}: {ratio}")
        if options.json:
            write_text(options.json, json.dumps(report, indent=1) + "\n")
    return report


def _read(path: Path) -> dict[str, Any]:
    try:
        report = read_json(path)
        if any(name not in report for name in OF_A_REPORT) or any(name not in row for row in report["rows"] for name in OF_A_ROW):
            raise KeyError
        report["rows"][0]
        return report
    except (OSError, ValueError, LookupError, TypeError):
        raise UsageError(f"from-json is {path}: expected a file that {PROGRAM} --json wrote") from None


def _join(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Join reports into one. All must come from one machine with the same packages."""
    first = reports[0]
    for report in reports[1:]:
        for name in ("processor", "gpu", "cores", "versions", "rounds"):
            if report.get(name) != first.get(name):
                raise UsageError(
                    f"from-json has {name} {report.get(name)} beside {first.get(name)}: ratios hold within one machine and run only"
                )
    return {**first, "rows": [row for report in reports for row in report["rows"]]}
