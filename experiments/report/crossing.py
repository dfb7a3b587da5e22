"""Comparisons of cells and parametrizations on equal terms, as a page of the report."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.fair_crossing.figure import score_figure
from experiments.fair_crossing.problems import SCORES
from experiments.fair_crossing.significance import Difference, differences, scores_of
from experiments.report.markdown import RESULTS, figure_path, table
from experiments.report.records import anonymous, load_summary
from lrpt.cli.studies import grouped
from lrpt.cli.summary import mean_and_deviation
from lrpt.metrics import LOWER_IS_BETTER

TERMS = {
    "parameters": ("At equal parameters", "python -m experiments.fair_crossing --data.source ptb --data.dir DIR"),
    "time": ("At equal time of an update", "python -m experiments.fair_crossing --equal time --data.source ptb --data.dir DIR"),
}
"""Terms of a comparison -> heading, and the command that makes it."""

TITLE = "# Cells and parametrizations on equal terms"
ABOUT = """\
In none of the papers: six cells, whose recurrent matrices are stored in several ways, on three tasks (copies of variable length, permuted
digits, characters). Structured matrices hold about a quarter of the parameters of full ones, so that their networks are wider. Each pair of
a cell and a parametrization has its own learning rate: of those that the command names, the best one on the validation part with one seed.
A * marks differences from full matrices that are significant at 5 %: Welch's test over seeds, with Holm's correction for all differences of
a task."""
LIMITS = """\
What this does not show: networks that are larger, or trained for longer; other shares of parameters; and learning rates outside of the
grid. Errors are those of seeds: the test parts are one text, one set of digits and one set of copies."""

Summary = Mapping[str, Any]
Scores = Mapping[str, Mapping[str, Sequence[float]]]


def kept(root: Path) -> dict[str, Summary]:
    """Return the comparisons that are kept, by their terms.

    Raises:
      UsageError: a file is damaged.
    """
    found = {terms: load_summary(root / RESULTS / f"fair_crossing_{terms}.json") for terms in TERMS}
    return {terms: summary for terms, summary in found.items() if summary is not None}


def section(root: Path) -> str:
    """Return the page: what came out, tables and figures, or the commands that would make them."""
    summaries = kept(root)
    parts = [TITLE, ABOUT.replace("\n", " "), *_conclusion(summaries)]
    for terms, (heading, command) in TERMS.items():
        said = _comparison(terms, summaries[terms]) if terms in summaries else [f"Not yet run: `{command}`"]
        parts += [f"## {heading}", *said]
    return "\n\n".join([*parts, LIMITS.replace("\n", " ")])


def draw(root: Path) -> None:
    """Draw the plots of the comparisons that are kept."""
    for terms, summary in kept(root).items():
        for task, rows in grouped(summary["runs"], "task").items():
            title = f"{task}: equal {terms}, {summary['options']['updates']:,} updates"
            score_figure(rows, root / _figure(terms, task), SCORES[task], title)


def _figure(terms: str, task: str) -> Any:
    return figure_path(f"fair_crossing_{terms}_{task}.png")


def _comparison(terms: str, summary: Summary) -> Iterator[str]:
    """Yield the parts of one comparison: how it was made, and each task."""
    runs, options, environment = summary["runs"], summary["options"], summary["environment"]
    hours = sum(run["seconds"] for run in runs) / 3600
    yield (
        f"{options['updates']:,} updates, learning rates {', '.join(f'{rate:g}' for rate in options['rates'])}, {options['seeds']} seeds; "
        f"{len(runs)} runs at the chosen rates took {hours:.1f} hours of a core, on a machine with {environment['cpus']} cores that had "
        f"other work to do: `{anonymous(environment['command'])}`"
    )
    for task, rows in grouped(runs, "task").items():
        yield f"### {task.capitalize()}"
        yield f"Test {SCORES[task].replace('_', ' ')}, {_direction(task)} is better, less that of full matrices:"
        yield _differences(scores_of(rows))
        yield f"![{task}, equal {terms}](../../{_figure(terms, task)})"
        yield _details(rows, SCORES[task])


def _direction(task: str) -> str:
    return "lower" if SCORES[task] in LOWER_IS_BETTER else "higher"


def _differences(scores: Scores) -> str:
    """Return a table with a row for each parametrization and a column for each cell."""
    found = {(one.cell, one.parametrization): one for one in differences(scores)}
    kinds = list(dict.fromkeys(kind for _, kind in found))
    rows = [[kind.replace("_", " "), *(_difference(found.get((cell, kind))) for cell in scores)] for kind in kinds]
    full = ["full matrices", *(f"{np.mean(of_cell['dense']):.3f}" if "dense" in of_cell else "–" for of_cell in scores.values())]
    return table(["matrices", *scores], [full, *rows])


def _difference(one: Difference | None) -> str:
    return "–" if one is None else f"{one.mean:+.3f}{' *' * one.significant}"


def _details(rows: Sequence[Mapping[str, Any]], score: str) -> str:
    columns = ["cell", "matrices", "width", "parameters", "rate", "seeds", score.replace("_", " "), "sd"]
    body = [_row(own) for kinds in grouped(list(rows), "cell", "parametrization").values() for own in kinds.values()]
    return table(columns, body, left=2)


def _row(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    first = runs[0]
    names = [first["cell"], first["parametrization"].replace("_", " "), str(first["size"]), f"{first['parameters']:,}"]
    return [*names, f"{first['learning_rate']:g}", str(len(runs)), *mean_and_deviation([run["score"] for run in runs])]


def _conclusion(summaries: Mapping[str, Summary]) -> Iterator[str]:
    """Yield, for each comparison, how often parametrizations beat full matrices, and a diagonal helps low rank: the paper's questions."""
    for terms, summary in summaries.items():
        said = "; ".join(_counted(kind, count) for kind, count in _outcomes(summary, "dense").items())
        diagonal = _outcomes(summary, "low_rank").get("low_rank_plus_diagonal")
        added = f" Against low rank, {_counted('low_rank_plus_diagonal', diagonal)}." if diagonal else ""
        if said:
            yield f"**Equal {terms}.** Against full matrices, over cells and tasks, {said}.{added}"


def _outcomes(summary: Summary, other: str) -> dict[str, Counter[str]]:
    """Return by parametrization how many cells and tasks have which outcome against another one."""
    counts: dict[str, Counter[str]] = {}
    for task, rows in grouped(summary["runs"], "task").items():
        for one in differences(scores_of(rows), other=other):
            counts.setdefault(one.parametrization, Counter())[_outcome(one, task)] += 1
    return counts


def _outcome(one: Difference, task: str) -> str:
    if not one.significant:
        return "undecided"
    return "better" if (one.mean < 0) == (SCORES[task] in LOWER_IS_BETTER) else "worse"


def _counted(kind: str, count: Counter[str]) -> str:
    return f"{kind.replace('_', ' ')} is better in {count['better']}, worse in {count['worse']} and undecided in {count['undecided']}"
