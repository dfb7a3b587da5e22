"""Writes REPRODUCTION.md: published figures and ours, from the results that are kept with the code.

    python -m experiments.report --collect RUNS_DIR     copies the small files of every run below RUNS_DIR to experiments/results
    python -m experiments.report                        writes REPRODUCTION.md and its figures from experiments/results
    python -m experiments.report --check                exits with 1 if that would change REPRODUCTION.md

A run is kept as `experiments/results/<experiment>/<run directory>/` with `config.json`, `environment.json`, `metrics.jsonl` and, unless it
was stopped before its end, `result.json`; a swarm of `experiments.jsb` as `experiments/results/jsb_swarm.json`, its `swarm.json`; studies
of `experiments.lattice` under the names in `experiments.report.lattice`, and a crossing as `crossing.json`. What was published is
there, and in `experiments.report.published`.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.report import crossing, lattice, swarm
from experiments.report.collecting import collect
from experiments.report.comparison import Comparison, compare
from experiments.report.markdown import RESULTS, figure, labelled_runs, report, studies_with_runs
from experiments.report.melodies_and_words import STUDIES as MELODIES_AND_WORDS
from experiments.report.published import STUDIES as PASSTHROUGH
from experiments.report.records import load
from experiments.report.recurrent_highway import STUDIES as RECURRENT_HIGHWAY
from experiments.report.stability import STUDIES as STABILITY
from experiments.report.variable_computation import STUDIES as VARIABLE_COMPUTATION
from lrpt.analysis.curves import Curve, learning_curves
from lrpt.cli.flags import parse_dataclass
from lrpt.errors import UsageError
from lrpt.runs.console import Console, Explained
from lrpt.runs.run_directory import write_text

PROGRAM = "python -m experiments.report"
ROOT = Path(__file__).parents[2]
REPORT = "REPRODUCTION.md"
STUDIES = (*PASSTHROUGH, *STABILITY, *RECURRENT_HIGHWAY, *VARIABLE_COMPUTATION, *MELODIES_AND_WORDS)

FURTHER = (swarm, lattice, crossing)
"""Studies of many runs: each has a section of its own, and draws its own figures."""


@dataclass(frozen=True)
class Options:
    """What a command line says."""

    collect: Path | None = None
    """copy the small files of every run below this directory to experiments/results, and write nothing else"""
    check: bool = False
    """only say whether REPRODUCTION.md is what would be written"""


def run(options: Options, root: Path, console: Console) -> None:
    """Does what the options say to the repository at `root`.

    Raises:
      UsageError: a result file is damaged, a run cannot be collected, or the report is stale.
    """
    if options.collect is not None and options.check:
        raise UsageError("--collect and --check exclude each other: collect first")
    if options.collect is not None:
        collect(options.collect, root / RESULTS, console)
        console.say(f"next: {PROGRAM}")
        return
    records = load(root / RESULTS)
    comparisons = compare(STUDIES, records)
    text = report(comparisons, records, [part.section(root) for part in FURTHER])
    for record in records:
        if record.result is None:
            console.warn(f"{RESULTS / record.experiment / record.name} is partial: {record.state}")
    if options.check:
        _check(root, text, comparisons)
    else:
        draw(root, comparisons)
        for part in FURTHER:
            part.draw(root)
        write_text(root / REPORT, text)
    console.say(
        f"{REPORT}: {len(records)} runs, {sum(c.status == 'reproduced' for c in comparisons)} of {len(comparisons)} claims reproduced"
    )


def _check(root: Path, text: str, comparisons: Sequence[Comparison]) -> None:
    path = root / REPORT
    if not path.exists() or path.read_text() != text:
        raise UsageError(f"{REPORT} is not what the results say: run {PROGRAM}", code=1)
    for study in studies_with_runs(comparisons):
        if not (root / figure(study)).exists():
            raise UsageError(f"{figure(study)} is missing: run {PROGRAM}", code=1)


def draw(root: Path, comparisons: Sequence[Comparison]) -> None:
    """The learning curves of every study that has runs, with the published log's points."""
    for study in studies_with_runs(comparisons):
        shown = labelled_runs([c for c in comparisons if c.study is study])
        curves = [Curve(label, *_points(run.curve(study.score))) for label, run in shown.items()]
        published = [Curve(f"{study.log_of}, published log", *_points(study.log))] if study.log else []
        learning_curves(curves, study.score, root / figure(study), study.title, published)


def _points(scores: Mapping[int, float]) -> tuple[list[int], list[float]]:
    return list(scores), list(scores.values())


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> None:
    """Exits with 2 where a flag is wrong, 1 where a file is damaged or the report is stale."""
    console = Console()
    try:
        with Explained(console):
            description = "Published figures and ours: writes REPRODUCTION.md from experiments/results."
            run(parse_dataclass(Options, sys.argv[1:] if arguments is None else arguments, PROGRAM, description, Options()), root, console)
    except OSError as error:
        console.error(f"{error.strerror or error}{f' ({error.filename})' if error.filename else ''}")
        sys.exit(1)
