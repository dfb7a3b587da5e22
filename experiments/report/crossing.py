"""The crossing of cells and parametrizations, as a section of the report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.crossing import command as crossing
from experiments.report.markdown import RESULTS, table
from experiments.report.records import FIGURES, anonymous, load_summary
from lrpt.cli.summary import mean_and_deviation

KEPT = RESULTS / crossing.SUMMARY
FIGURE = RESULTS / FIGURES / "crossing.png"

TITLE = "# Cells and parametrizations at equal size"
NOT_YET = "Not yet run: `python -m experiments.crossing --data.source ptb --data.dir DIR --updates 1000`"

SHOWS = """\
What it shows: which way to store matrices does better within a cell, at this number of parameters, on this text and in so many updates.
What it does not show: how networks compare that are trained to convergence, are larger, or have other ranks; what each would do at its
own best learning rate, as all have the same; and speed: networks with low-rank matrices are wider, so that an update costs more. Deviations
are those of seeds, and the test part is one text."""

Groups = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]


def section(root: Path) -> str:
    """Return the table with its limits, or the command that makes it if no result is kept.

    Raises:
      UsageError: the result file is damaged.
    """
    summary = load_summary(root / KEPT)
    if summary is None:
        return f"{TITLE}\n\n{NOT_YET}"
    runs, groups = summary["runs"], crossing.by_group(summary["runs"])
    data, environment = summary["options"]["data"], summary["environment"]
    minutes = sum(run["seconds"] for run in runs) / 60
    ours = (
        f"In none of the papers. {crossing.title(runs)}, on {anonymous(data['file'] or data['source'])}; test bits per character at the "
        f"lowest validation loss. Training took {minutes:.0f} core-minutes on a machine with {environment['cpus']} cores, which had other "
        f"work to do: `{anonymous(environment['command'])}`"
    )
    parts = [TITLE, ours, _table(groups), differences(groups), SHOWS.replace("\n", " "), f"![{TITLE.strip('# ')}](../../{FIGURE})"]
    return "\n\n".join(parts)


def draw(root: Path) -> None:
    """Draw the plot if the result file is kept."""
    summary = load_summary(root / KEPT)
    if summary is not None:
        crossing.draw(summary["runs"], root / FIGURE)


def _table(groups: Groups) -> str:
    rows = [_row(runs) for of_cell in groups.values() for runs in of_cell.values()]
    return table(["cell", "matrices", "width", "rank", "parameters", "seeds", "bits per character", "sd"], rows, left=2)


def _row(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    first, scores = runs[0], _scores(runs)
    names = [first["cell"], first["parametrization"].replace("_", " ")]
    return [
        *names,
        str(first["size"]),
        str(first["rank"] or ""),
        f"{first['parameters']:,}",
        str(len(runs)),
        *mean_and_deviation(scores),
    ]


def _scores(runs: Sequence[Mapping[str, Any]]) -> list[float]:
    return [run[crossing.SCORE] for run in runs]


def differences(groups: Groups) -> str:
    """Compare each parametrization with dense matrices for each cell, and mark differences of more than two standard errors."""
    said = []
    for cell, of_cell in groups.items():
        if "dense" in of_cell:
            others = [_difference(kind, _scores(runs), _scores(of_cell["dense"])) for kind, runs in of_cell.items() if kind != "dense"]
            said += [f"{cell}: {', '.join(others)}"] * bool(others)
    if not said:
        return "There are no dense networks to compare with."
    return f"Bits per character more (+) or less (-) than with dense matrices, \\* beyond two standard errors: {'; '.join(said)}."


def _difference(kind: str, scores: Sequence[float], dense: Sequence[float]) -> str:
    difference = float(np.mean(scores) - np.mean(dense))
    known = len(scores) > 1 and len(dense) > 1
    error = np.sqrt(np.var(scores, ddof=1) / len(scores) + np.var(dense, ddof=1) / len(dense)) if known else np.inf
    mark = r"\*" if abs(difference) > 2 * error else ""
    return f"{kind.replace('_', ' ')} {difference:+.3f}{mark}"
