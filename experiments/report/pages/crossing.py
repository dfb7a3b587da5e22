"""Comparisons of cells and parametrizations on equal terms, as a page of the report."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from experiments.fair_crossing.figure import score_figure
from experiments.fair_crossing.problems import SCORES
from experiments.fair_crossing.rows import by_pair, columns, row, words
from experiments.fair_crossing.significance import ErrorRatio, Scores, differences, overall, scores_of
from experiments.report.kept.commands import command_line_of
from experiments.report.kept.summaries import Summary, crossing_name, load_summary
from experiments.report.wording.markdown import RESULTS, figure_path, table
from lrpt.analysis.significance import holm
from lrpt.cells import title_of
from lrpt.cli.studies import grouped
from lrpt.metrics import is_lower_better
from lrpt.runs.console import in_series

TERMS = {
    "parameters": ("At equal parameters", "python -m experiments.fair_crossing --data.source ptb --data.dir DIR"),
    "time": ("At equal time of an update", "python -m experiments.fair_crossing --equal time --data.source ptb --data.dir DIR"),
}
"""Terms of a comparison -> heading, and the command that makes it."""

TITLE = "# Cells and parametrizations on equal terms"
ABOUT = """\
This page compares six cells, whose recurrent matrices are stored in several ways, on three tasks: copies of variable length, permuted
digits, characters. None of the papers has this comparison. The recurrent matrices have five of the seven parametrizations that the command
compares by default.

- **Widths**: structured matrices hold about a quarter of the parameters of dense ones, so their networks are wider.
- **Learning rates**: each pair of a cell and a parametrization has its own: the best one on the validation split with one seed. The command
  tries three learning rates first. It tries further ones of a grid while the best one is the lowest or the highest so far.
- **Errors** (losses, bits, or 1 - accuracy) are compared by the ratios of their geometric means over seeds. The tables below have
  arithmetic means and standard deviations (sd).
- **Significance**: a * marks ratios that differ from 1 significantly at 5 %, by Welch's test on logarithms of errors, in which each pair
  has its own variance. Holm's correction covers a whole table: three tasks in the two tables below, one task in the later ones, whose last
  column has a correction of its own. So a ratio may have a * in the later table only. With three seeds, only large differences are
  significant in one cell. The column of all cells holds for these six cells only, which are no random sample."""
LIMITS = """\
What this does not show:

- networks that are trained for longer, or that are larger (with 1,000 units, dense matrices take several times as long as those of low
  rank: [Performance](../performance.md));
- other shares of parameters;
- learning rates outside of the grid.

The tests take only the spread of seeds into account: all networks are tested on one text, one set of digits and one set of copies."""

DIAGONAL = "low_rank_plus_diagonal"

Found = Mapping[str, Mapping[str, ErrorRatio]]
"""task -> parametrization -> its difference from another one, over all cells"""


def kept(root: Path) -> dict[str, Summary]:
    """Return the comparisons that are kept, by their terms.

    Raises:
      UsageError: a file is damaged.
    """
    found = {terms: load_summary(root / RESULTS / f"{crossing_name(terms)}.json") for terms in TERMS}
    return {terms: summary for terms, summary in found.items() if summary is not None}


def section(root: Path) -> str:
    """Return the page: results, tables and figures, or the commands that would make them."""
    summaries = kept(root)
    parts = [TITLE, ABOUT, *_conclusion(summaries)]
    for terms, (heading, command) in TERMS.items():
        said = _comparison(terms, summaries[terms]) if terms in summaries else [f"Not yet run: `{command}`"]
        parts += [f"## {heading}", *said]
    return "\n\n".join([*parts, LIMITS])


def meanings(root: Path) -> list[str]:
    """Return what the kept comparisons of low rank, with and without a diagonal, mean for the paper: a sentence for each."""
    found = {terms: _summarized(summary) for terms, summary in kept(root).items()}
    return [_meaning(terms, full, low_rank) for terms, (full, low_rank) in found.items() if _has(DIAGONAL, low_rank)]


def draw(root: Path) -> None:
    """Draw the plots of the comparisons that are kept."""
    for terms, summary in kept(root).items():
        for task, rows in grouped(summary["runs"], "task").items():
            title = f"{task.capitalize()}: equal {terms}, {summary['options']['updates']:,} updates"
            score_figure(rows, root / _figure(terms, task), SCORES[task], title, terms)


def _figure(terms: str, task: str) -> PurePosixPath:
    return figure_path(f"{crossing_name(terms)}_{task}.png")


def _comparison(terms: str, summary: Summary) -> Iterator[str]:
    """Yield the parts of one comparison: how it was made, and each task."""
    runs, options, environment = summary["runs"], summary["options"], summary["environment"]
    hours = sum(run["seconds"] for run in runs) / 3600
    yield (
        f"{options['updates']:,} updates, learning rates {', '.join(f'{rate:g}' for rate in options['rates'])}, {options['seeds']} seeds; "
        f"{len(runs)} runs at the chosen rates took {hours:.1f} hours of a core, on a machine with {environment['cpus']} cores that had "
        f"other work to do: `{command_line_of(summary)}`"
    )
    if terms == "time":
        yield (
            f"An update takes about as long as that of a {title_of(options['cells'][0])} with dense matrices and {options['budget']:,} "
            "parameters; the column time has the measured ratio. At this size, structured matrices save parameters rather than time: "
            f"their networks have {_share(runs):.2f} of the parameters of those with dense matrices, in the geometric mean."
        )
    for task, rows in grouped(runs, "task").items():
        yield f"### {task.capitalize()}"
        yield (
            f"Test {_error(task)}, divided by that of dense matrices. The last column has the geometric mean over all cells, and the "
            "number of cells in which the ratio is below 1:"
        )
        yield _ratios(scores_of(rows), SCORES[task])
        yield f"![{task}, equal {terms}](../../{_figure(terms, task)})"
        yield table(columns(rows, SCORES[task]), list(map(row, by_pair(rows).values())), left=2)


def _share(runs: Sequence[Mapping[str, Any]]) -> float:
    """Return the parameters of networks over those of a cell with dense matrices, in the geometric mean over structures and tasks."""
    sizes = {(run["task"], run["cell"], run["parametrization"]): run["parameters"] for run in runs}
    full = {(task, cell): size for (task, cell, kind), size in sizes.items() if kind == "dense"}
    ratios = [size / full[task, cell] for (task, cell, kind), size in sizes.items() if kind != "dense" and (task, cell) in full]
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else 1.0


def _error(task: str) -> str:
    score = words(SCORES[task])
    return score if is_lower_better(SCORES[task]) else f"error (1 - {score})"


def _ratios(scores: Scores, score: str) -> str:
    """Return a table with a row for each parametrization and a column for each cell, and one for all cells."""
    found = {(one.cell, one.parametrization): one for one in [*differences(scores, score), *overall(scores, score)]}
    kinds = list(dict.fromkeys(kind for _, kind in found))
    rows = [[words(kind), *(_ratio(found.get((cell, kind))) for cell in (*scores, None))] for kind in kinds]
    full = ["dense: " + words(score), *(_mean(of_cell.get("dense")) for of_cell in scores.values()), ""]
    return table(["matrices", *map(title_of, scores), "all cells"], [full, *rows])


def _mean(scores: Sequence[float] | None) -> str:
    return "–" if scores is None else f"{np.mean(scores):.3f}"


def _ratio(one: ErrorRatio | None) -> str:
    if one is None:
        return "–"
    cells = f" ({one.better} of {one.cells})" if one.cell is None else ""
    return f"{_rounded(one.ratio)}{cells}{_mark(one)}"


def _mark(one: ErrorRatio) -> str:
    return " *" if one.significant else ""


def _rounded(ratio: float) -> str:
    return f"{ratio:.3f}" if abs(ratio - 1) < 0.05 else f"{ratio:.2f}"


def _conclusion(summaries: Mapping[str, Summary]) -> Iterator[str]:
    """Yield, for each comparison, answers to the paper's questions: do small matrices beat dense ones, and does a diagonal help?"""
    for terms, summary in summaries.items():
        full, low_rank = _summarized(summary)
        kinds = dict.fromkeys(kind for own in full.values() for kind in own)
        rows = [[f"{words(kind)} / dense", *_each(kind, full)] for kind in kinds]
        if _has(DIAGONAL, low_rank):
            rows.append([f"{words(DIAGONAL)} / {words('low_rank')}", *_each(DIAGONAL, low_rank)])
        if rows:
            yield f"**Equal {terms}.** Ratios of errors (below 1: the first kind of matrix is better), in the geometric mean over cells:"
            yield table(["errors", *full], rows)
        if _has(DIAGONAL, low_rank):
            yield _meaning(terms, full, low_rank)


def _summarized(summary: Summary) -> tuple[Found, Found]:
    """Return the ratios to dense matrices, and those of low rank with a diagonal to low rank alone, over all cells.

    Holm's correction covers all of them together.
    """
    found = _over(summary, "dense"), _only(DIAGONAL, _over(summary, "low_rank"))
    tested = [one for part in found for own in part.values() for one in own.values()]
    marks = iter(holm([one.p for one in tested]))
    full, low_rank = (
        {task: {kind: one._replace(significant=next(marks)) for kind, one in own.items()} for task, own in part.items()} for part in found
    )
    return full, low_rank


def _only(kind: str, found: Found) -> Found:
    return {task: {kind: own[kind]} if kind in own else {} for task, own in found.items()}


def _over(summary: Summary, other: str) -> Found:
    """Return the differences of all parametrizations from another one, over all cells."""
    tasks = {task: scores_of(rows) for task, rows in grouped(summary["runs"], "task").items()}
    return {task: _by_kind(overall(own, SCORES[task], other=other)) for task, own in tasks.items()}


def _by_kind(found: Sequence[ErrorRatio]) -> dict[str, ErrorRatio]:
    return {one.parametrization: one for one in found}


def _has(kind: str, found: Found) -> bool:
    """Return whether a parametrization was compared on any task."""
    return any(kind in own for own in found.values())


def _each(kind: str, found: Found) -> list[str]:
    """Return the ratios of a parametrization on all tasks."""
    return [f"{_rounded(own[kind].ratio)}{_mark(own[kind])}" if kind in own else "–" for own in found.values()]


def _meaning(terms: str, full: Found, low_rank: Found) -> str:
    """Return what the paper says, that matrices of low rank save parameters and that a diagonal makes them better, as it is found here."""
    alone, diagonal = (_sides(full, kind) for kind in ("low_rank", DIAGONAL))
    differing = f"low rank is {alone}, and low rank plus diagonal is {diagonal}"
    both = f"low rank with or without a diagonal is {alone}" if alone == diagonal else differing
    versus_low_rank = _sides(low_rank, DIAGONAL)
    return f"At equal {terms}, compared with dense matrices, {both}. Compared with low rank alone, the diagonal is {versus_low_rank}."


def _sides(found: Found, kind: str) -> str:
    """Return on which tasks a parametrization is significantly better or worse than another one, in words."""
    won, lost = ([task for task, own in found.items() if kind in own and side(own[kind])] for side in (_wins, _loses))
    said = [f"{word} on {in_series(tasks)}" for word, tasks in (("better", won), ("worse", lost)) if tasks]
    return f"significantly {' and '.join(said)}" if said else "neither significantly better nor worse on any task"


def _wins(one: ErrorRatio) -> bool:
    return one.significant and one.ratio < 1


def _loses(one: ErrorRatio) -> bool:
    return one.significant and one.ratio > 1
