"""One page for each paper: every claim with its verdict in narrow tables, figures, and below them the commands."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from experiments.report.claims.judged import NONE, Judged
from experiments.report.claims.matching import excess, recorded
from experiments.report.claims.paper import Study
from experiments.report.claims.rows import Planned, Row
from experiments.report.claims.verdicts import Verdict
from experiments.report.claims.weaker import surplus
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
    heads = ["model", "metric", "published", "ours", "seeds", "verdict"]
    for place in judged.paper.places:
        found = [q for q in judged.quantities if q.row.where == place]
        notes = Notes([(q.smaller or q.row.scale, q.row.note) for q in found])
        rows = [
            [
                *(q.title, q.quantity.name, q.quantity.published or q.quantity.shown or NONE, q.ours, q.seeds),
                "; ".join(filter(None, [notes.marked(q.verdict, number), str(surplus(q, judged) or "")])),
            ]
            for number, q in enumerate(found)
        ]
        parts += [f"### {place}", table(heads, rows, left=2), notes.below]
    return [part for part in parts if part]


class Notes:
    """Notes below a table, numbered if not all rows share the one note, and the verdicts that refer to them.

    Args:
      of_rows: for each row of the table, what is smaller than published and why it cannot be run here ('': nothing to say).
    """

    def __init__(self, of_rows: Sequence[tuple[str, str]]) -> None:
        self._of_rows = of_rows
        self._all = list(dict.fromkeys(note for notes in of_rows for note in notes if note))
        self._shared = len(self._all) == 1 and all(smaller for smaller, _ in of_rows)

    @property
    def below(self) -> str:
        """Return what stands below the table."""
        if self._shared:
            return f"Smaller scale: {self._all[0]}."
        return "\n".join(f"- [{number}] {note}" for number, note in enumerate(self._all, 1))

    def marked(self, verdict: Verdict | None, row: int) -> str:
        """Return a verdict without what is smaller, which stands below the table, and with the numbers of its notes."""
        if verdict is None:
            short = "no claim"
        else:
            smaller = self._of_rows[row][0]
            short = str(verdict).replace(f" ({smaller})", "").replace(f"({smaller}; ", "(") if smaller else str(verdict)
        numbers = [] if self._shared else [f"[{self._all.index(note) + 1}]" for note in self._of_rows[row] if note]
        return " ".join([short, *numbers])


def _relations(judged: Judged) -> list[str]:
    parts = [
        "## Orderings",
        "Both models are compared on the seeds that both have. The advantage is positive if the model is ahead "
        "that the paper's text calls better, or its table in claims marked *table only*; ± is the standard error. It is computed on the "
        "test split if both networks were trained to the end. Otherwise it is computed on the validation split, up to the "
        "last common update.",
    ]
    for place in dict.fromkeys(r.relation.where for r in judged.relations):
        found = [r for r in judged.relations if r.relation.where == place]
        units = dict.fromkeys(r.unit for r in found)
        own = [[r.unit] if len(units) > 1 else [] for r in found]
        notes = Notes([(r.smaller, r.relation.note) for r in found])
        rows = [
            [r.relation.sentence, *unit, r.advantage, r.seeds, notes.marked(r.verdict, number)]
            for number, (r, unit) in enumerate(zip(found, own, strict=True))
        ]
        heads = ["claim", *["advantage in"] * (len(units) > 1), "advantage", "seeds that agree", "verdict"]
        parts += [f"### {place}: orderings", table(heads, rows, left=len(heads) - 3)]
        parts += [f"Advantages are in {next(iter(units))}."] if len(units) == 1 and NONE not in units else []
        parts += [notes.below]
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
    blocks = [_some_columns(columns, rows, start) for start in range(1, len(columns), AT_ONCE)]
    title = f"## Learning curves. {study.title}"
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


def _remarks(judged: Judged) -> list[str]:
    remarks = list(judged.paper.remarks(judged.evidence))
    return ["## Remarks", *remarks] if remarks else []


def _first_names(names: Sequence[str]) -> str:
    """Return up to two names of rows, and how many more there are."""
    return "; ".join(names) if len(names) <= 2 else f"{names[0]}, and {len(names) - 1} more rows"


def _longer(row: Row, judged: Judged) -> str:
    """Return which seeds of a row were trained for longer than its command says, and with which flag; nothing if none was."""
    if row.network is None:
        return ""
    runs = row.network.runs(judged.evidence)
    longer = {seed: recorded(run)["train.updates"] for seed, run in runs.items() if excess(row.network.config, run)}
    return "".join(f"; seed {seed} with --train.updates {updates}" for seed, updates in longer.items())


def _commands(judged: Judged, seeds: Sequence[int]) -> list[str]:
    """Return the command of every row, those of relations included, each once; `--seeds` is left to the reader."""
    named: dict[Planned, list[str]] = {}
    for row in judged.paper.rows:
        for planned in row.planned(seeds):
            named.setdefault(planned, []).append(f"{row.where}: {row.title}{_longer(row, judged)}")
    for relation in judged.paper.relations:
        for planned in relation.planned(seeds):
            named.setdefault(planned, [relation.sentence])
    for relation in judged.paper.relations:
        for version in relation.versions[1:]:
            for planned in version.planned(seeds):
                named.setdefault(planned, [f"smaller scale: {relation.sentence}"])
    lines = ["\n".join([f"# {_first_names(list(dict.fromkeys(names)))}", *planned.lines]) for planned, names in named.items()]
    text = (
        "Each command trains one model. Presets named `small`, `annealed` or `equal`, and commands with `--train.updates`, are smaller "
        "than published. Add `--seeds N` and `--workdir DIR`, and `--data.dir DIR` if the data are published files. The commands of kept "
        "studies are on "
        "[their page](runs.md)."
    )
    return ["## Commands", text, "```bash\n" + "\n".join(lines) + "\n```"] if lines else []
