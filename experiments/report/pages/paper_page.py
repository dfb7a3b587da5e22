"""One page for each paper: every claim with its verdict in narrow tables, figures, and below them the commands."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from experiments.report.claims.judged import NONE, Judged, JudgedQuantity
from experiments.report.claims.paper import Study
from experiments.report.claims.rows import Planned
from experiments.report.claims.verdicts import Verdict
from experiments.report.figures.analyses import analysis_figures
from experiments.report.figures.learning_curves import tabulated
from experiments.report.figures.studies import shown
from experiments.report.wording.markdown import figure_path, table
from experiments.report.wording.texts import capitalized

DOCS = PurePosixPath("docs/reproduction")
UP = PurePosixPath("../..")
AT_ONCE = 7
"""columns of learning curves that fit a web page"""


def page_path(name: str) -> PurePosixPath:
    """Return where the page of a paper is, from the top of the repository."""
    return DOCS / f"{name}.md"


def page(judged: Judged, seeds: Sequence[int]) -> str:
    """Return the page of a paper."""
    paper = judged.paper
    parts = [
        f"# {paper.title}: every claim",
        f"{paper.citation}. [Overview]({UP}/REPRODUCTION.md)",
        "How to read this page: see [verdicts](verdicts.md).",
        *_takeaways(judged),
        *_rows(judged),
        *_relations(judged),
        *_plots(judged),
        *(part for study in paper.studies for part in _study(study, judged)),
        *_studies(judged),
        *_remarks(judged),
        *_commands(judged, seeds),
    ]
    return "\n\n".join(parts) + "\n"


def _takeaways(judged: Judged) -> list[str]:
    return ["## What to take away", "\n".join(f"- {one.whole}" for one in judged.takeaways)]


def _rows(judged: Judged) -> list[str]:
    parts = ["## Rows of tables, points of figures, sentences about one model"]
    for place in judged.paper.places:
        found = [q for q in judged.quantities if q.row.where == place]
        parts += [f"### {place}", table(["model", "metric", "published", "ours", "seeds", "verdict"], [_row(q) for q in found], left=2)]
        notes = dict.fromkeys(f"{q.row.title}: {q.row.note}" for q in found if q.row.note)
        scales = dict.fromkeys(f"{q.row.title}: {q.smaller}" for q in found if q.smaller)
        parts += [_notes("Smaller scale", _shared(scales)), _notes("Not runnable here", _shared(notes))]
    return [part for part in parts if part]


def _row(q: JudgedQuantity) -> list[str]:
    return [q.title, q.quantity.name, q.quantity.published or q.quantity.shown or NONE, q.ours, q.seeds, _short(q.verdict, q.smaller)]


def _short(verdict: Verdict | None, smaller: str) -> str:
    """Return a verdict without what is smaller, which stands below the table."""
    if verdict is None:
        return "no claim"
    return str(verdict).replace(f" ({smaller})", "").replace(f"({smaller}; ", "(") if smaller else str(verdict)


def _shared(notes: dict[str, None]) -> dict[str, None]:
    """Return notes with the models that share one joined: 'a: note', or 'note: a; b' as names of models have commas."""
    by_note: dict[str, list[str]] = {}
    for note in notes:
        model, _, text = note.rpartition(": ")
        by_note.setdefault(text, []).append(model)
    return dict.fromkeys(f"{models[0]}: {text}" if len(models) == 1 else f"{text}: {'; '.join(models)}" for text, models in by_note.items())


def _notes(title: str, notes: dict[str, None]) -> str:
    return f"{title}:\n\n" + "\n".join(f"- {note}" for note in notes) if notes else ""


def _relations(judged: Judged) -> list[str]:
    parts = [
        "## Orderings",
        "Both models are compared on the seeds that both have. The advantage is that of the model that the paper's text calls better, or "
        "its table where a claim says so, with its standard error. It is computed on the test split if both networks were trained to the "
        "end. Otherwise it is computed on the validation split, up to the last common update.",
    ]
    for place in dict.fromkeys(r.relation.where for r in judged.relations):
        found = [r for r in judged.relations if r.relation.where == place]
        units = dict.fromkeys(r.unit for r in found)
        own = [[r.unit] if len(units) > 1 else [] for r in found]
        rows = [
            [r.relation.sentence, *unit, r.advantage, r.seeds, _short(r.verdict, r.smaller)] for r, unit in zip(found, own, strict=True)
        ]
        heads = ["claim", *["advantage in"] * (len(units) > 1), "advantage", "seeds that agree", "verdict"]
        parts += [f"### {place}: orderings", table(heads, rows, left=len(heads) - 3)]
        notes = _shared(dict.fromkeys(f"{r.relation.sentence}: {r.relation.note}" for r in found if r.relation.note))
        parts += [f"Advantages are in {next(iter(units))}."] if len(units) == 1 and NONE not in units else []
        scales = _shared(dict.fromkeys(f"{r.relation.sentence}: {r.smaller}" for r in found if r.smaller))
        all_alike = len(scales) == 1 and all(r.smaller for r in found)
        parts += [f"Smaller scale: {found[0].smaller}."] if all_alike else [_notes("Smaller scale", scales)]
        parts += [_notes("Not runnable here", notes)]
    return [part for part in parts if part]


def _plots(judged: Judged) -> list[str]:
    rows = [
        [plot.where, plot.shows, plot.place, NONE if plot.place.startswith("no ") else judged.state_of(plot)] for plot in judged.paper.plots
    ]
    return ["## Figures of the paper", table(["figure", "shows", "judged by", "state"], rows, left=4)]


def _drawn(study: Study, judged: Judged) -> list[str]:
    """Return the names of the figures of a study that has runs."""
    return [study.name, *analysis_figures(study, judged.evidence)] if study.runs(judged.evidence) else []


def _study(study: Study, judged: Judged) -> list[str]:
    runs = study.runs(judged.evidence)
    if not runs:
        return []
    columns, rows = tabulated(study, runs)
    blocks = [
        table([columns[0], *columns[start : start + AT_ONCE]], [[row[0], *row[start : start + AT_ONCE]] for row in rows])
        for start in range(1, len(columns), AT_ONCE)
    ]
    title = f"## Learning curves. {study.title}"
    image = f"![{study.title}]({UP}/{figure_path(f'{study.name}.png')})"
    others = [f"![{shows}]({UP}/{figure_path(f'{name}.png')})" for name, (shows, _) in analysis_figures(study, judged.evidence).items()]
    return [title, image, *others, f"{capitalized(study.score_name)} by update:", *blocks]


def _studies(judged: Judged) -> list[str]:
    """Return the figures of kept studies, and the most telling figure if it is none of them and stands nowhere else."""
    paper = judged.paper
    of_studies = shown(paper.name, judged.evidence)
    images = [f"![{shows}]({UP}/{figure_path(f'{name}.png')})" for name, shows in of_studies.items()]
    elsewhere = (name for study in paper.studies for name in _drawn(study, judged))
    if paper.telling not in {f"{name}.png" for name in (*elsewhere, *of_studies)}:
        images.append(f"![{paper.caption}]({UP}/{figure_path(paper.telling)})")
    return ["## Figures of studies", *images] if images else []


def _remarks(judged: Judged) -> list[str]:
    remarks = list(judged.paper.remarks(judged.evidence))
    return ["## Remarks", *remarks] if remarks else []


def _commands(judged: Judged, seeds: Sequence[int]) -> list[str]:
    """Return the command of every row, those of relations included, each once; `--seeds` is left to the reader."""
    named: dict[Planned, list[str]] = {}
    for row in judged.paper.rows:
        for planned in row.planned(seeds):
            named.setdefault(planned, []).append(f"{row.where}: {row.title}")
    for relation in judged.paper.relations:
        for planned in relation.planned(seeds):
            named.setdefault(planned, [relation.sentence])
    for relation in judged.paper.relations:
        for version in relation.versions[1:]:
            for planned in version.planned(seeds):
                named.setdefault(planned, [f"smaller scale: {relation.sentence}"])
    lines = [f"# {'; '.join(dict.fromkeys(names))}\n{planned.command}" for planned, names in named.items()]
    text = (
        "Each command trains one model. Presets named `small`, `annealed` or `equal`, and commands with `--train.updates`, are smaller "
        "than published. Add `--seeds N` and `--workdir DIR`, and `--data.dir DIR` if the data are published files. The commands of kept "
        "studies are on "
        "[their page](runs.md)."
    )
    return ["## Commands", text, "```bash\n" + "\n".join(lines) + "\n```"] if lines else []
