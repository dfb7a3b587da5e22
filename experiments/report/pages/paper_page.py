"""One page for each paper: every claim with its verdict, in narrow tables. Curves and commands are on pages of their own."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from experiments.report.claims.judged import NONE, Judged
from experiments.report.claims.verdicts import NOT_RUN, Verdict
from experiments.report.claims.weaker import surplus
from experiments.report.wording.markdown import table
from experiments.report.wording.texts import capitalized

DOCS = PurePosixPath("docs/reproduction")
UP = PurePosixPath("../..")


def page_path(name: str) -> PurePosixPath:
    """Return where the page of a paper is, from the top of the repository."""
    return DOCS / f"{name}.md"


def page(judged: Judged) -> str:
    """Return the page of a paper."""
    paper = judged.paper
    parts = [
        f"# {paper.title}: every claim",
        f"{paper.citation}. [Overview]({UP}/REPRODUCTION.md)",
        f"Other pages: how to read [verdicts](verdicts.md), [learning curves and figures]({paper.name}_curves.md), "
        f"[commands]({paper.name}_commands.md).",
        *_takeaways(judged),
        *_rows(judged),
        *_relations(judged),
        *_plots(judged),
        *_remarks(judged),
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
        rows, missing = [], []
        for number, q in enumerate(found):
            published = q.quantity.published or q.quantity.shown or NONE
            if q.verdict == NOT_RUN:
                missing.append((q.title, " ".join([q.quantity.name, published, *notes.marks(number)])))
                continue
            verdict = "; ".join(filter(None, [notes.marked(q.verdict, number), str(surplus(q, judged) or "")]))
            rows.append([q.title, q.quantity.name, published, q.ours, q.seeds, verdict])
        parts += [f"### {place}", table(heads, rows, left=2) if rows else "", not_run(missing, "with the published values"), notes.below]
    return [part for part in parts if part]


def not_run(found: Sequence[tuple[str, str]], what: str = "") -> str:
    """Return a list of (title, detail) of rows that are not yet run, '' if there are none. Rows of one title stand in one item."""
    if not found:
        return ""
    by_title: dict[str, list[str]] = {}
    for title, detail in found:
        by_title.setdefault(title, []).append(detail)
    items = [": ".join(filter(None, [title, "; ".join(details)])) for title, details in by_title.items()]
    return f"{capitalized(str(NOT_RUN))}{f', {what}' if what else ''}:\n\n" + "\n".join(f"- {item}" for item in items)


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
        return " ".join([short, *self.marks(row)])

    def marks(self, row: int) -> list[str]:
        """Return the numbers of the notes of a row, none if all rows share the one note."""
        return [] if self._shared else [f"[{self._all.index(note) + 1}]" for note in self._of_rows[row] if note]


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
        units = dict.fromkeys(r.unit for r in found if r.verdict != NOT_RUN)
        notes = Notes([(r.smaller, r.relation.note) for r in found])
        rows, missing = [], []
        for number, r in enumerate(found):
            if r.verdict == NOT_RUN:
                missing.append((r.relation.sentence, " ".join(notes.marks(number))))
            else:
                rows.append([r.relation.sentence, *[r.unit] * (len(units) > 1), r.advantage, r.seeds, notes.marked(r.verdict, number)])
        heads = ["claim", *["advantage in"] * (len(units) > 1), "advantage", "seeds that agree", "verdict"]
        parts += [f"### {place}: orderings", table(heads, rows, left=len(heads) - 3) if rows else ""]
        parts += [f"Advantages are in {next(iter(units))}."] if len(units) == 1 and NONE not in units else []
        parts += [not_run(missing), notes.below]
    return [part for part in parts if part]


def _plots(judged: Judged) -> list[str]:
    rows = [
        [plot.where, plot.shows, plot.place, NONE if plot.place.startswith("no ") else judged.state_of(plot)] for plot in judged.paper.plots
    ]
    return ["## Figures of the paper", table(["figure", "shows", "judged by", "state"], rows, left=4)]


def _remarks(judged: Judged) -> list[str]:
    remarks = list(judged.paper.remarks(judged.evidence))
    return ["## Remarks", *remarks] if remarks else []
