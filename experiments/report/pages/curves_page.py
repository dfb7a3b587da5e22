"""Learning curves and other figures of a paper's runs, on a page of their own."""

from collections.abc import Sequence

from experiments.report.claims.judged import NONE, Judged
from experiments.report.claims.paper import Study
from experiments.report.figures.analyses import analysis_figures
from experiments.report.figures.learning_curves import tabulated
from experiments.report.figures.studies import shown
from experiments.report.pages.paper_page import UP
from experiments.report.wording.markdown import figure_path, table
from experiments.report.wording.texts import capitalized

AT_ONCE = 7
"""columns of learning curves that fit a web page"""


def curves_page(judged: Judged) -> str:
    """Return the page."""
    paper = judged.paper
    parts = [
        f"# {paper.title}: learning curves and figures",
        f"The verdicts are on the page of [claims]({paper.name}.md).",
        *(part for study in paper.studies for part in _study(study, judged)),
        *_studies(judged),
    ]
    return "\n\n".join(parts) + "\n"


def _drawn(study: Study, judged: Judged) -> list[str]:
    """Return the names of the figures of a study that has runs."""
    return [study.name, *analysis_figures(study, judged.evidence)] if study.runs(judged.evidence) else []


def _study(study: Study, judged: Judged) -> list[str]:
    runs = study.runs(judged.evidence)
    if not runs:
        return []
    columns, rows = tabulated(study, runs)
    blocks = [_some_columns(columns, rows, start) for start in range(1, len(columns), AT_ONCE)]
    title = f"## {study.title}"
    image = f"![{study.title}]({UP}/{figure_path(f'{study.name}.png')})"
    others = [f"![{shows}]({UP}/{figure_path(f'{name}.png')})" for name, (shows, _) in analysis_figures(study, judged.evidence).items()]
    lines = "Thin lines are runs. Thick ones are their medians and bands their ranges, up to the end of the shortest run."
    several = [lines] if any(len(own) > 1 for own in runs.values()) else []
    crosses = "Published lines are test scores. So crosses are test scores of our runs, at the update of the lowest validation loss."
    tested = [crosses] if study.tested else []
    return [title, image, *several, *tested, *others, f"{capitalized(study.score_name)} by update:", *blocks]


def _some_columns(columns: Sequence[str], rows: Sequence[Sequence[str]], start: int) -> str:
    """Return a table of `AT_ONCE` columns from `start` on, behind the first column. Rows without a value there are left out."""
    parts = ((row[0], row[start : start + AT_ONCE]) for row in rows)
    kept = [[name, *values] for name, values in parts if any(value != NONE for value in values)]
    return table([columns[0], *columns[start : start + AT_ONCE]], kept)


def _studies(judged: Judged) -> list[str]:
    """Return the figures of kept studies, and the most telling figure if it is none of them and stands nowhere else."""
    paper = judged.paper
    of_studies = shown(paper.name, judged.evidence)
    images = [f"![{shows}]({UP}/{figure_path(f'{name}.png')})" for name, shows in of_studies.items()]
    elsewhere = (name for study in paper.studies for name in _drawn(study, judged))
    if paper.telling not in {f"{name}.png" for name in (*elsewhere, *of_studies)}:
        images.append(f"![{paper.caption}]({UP}/{figure_path(paper.telling)})")
    return ["## Figures of studies", *images] if images else []
