"""The report as Markdown: from comparisons and runs to text, and nothing else."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import PurePosixPath
from typing import TypeVar

from experiments.report.comparison import Comparison, Spread, span
from experiments.report.published import MARGIN, Quantity, Study
from experiments.report.records import FIGURES, Record

RESULTS = PurePosixPath("experiments/results")
PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "lrpt")
NONE = "–"

T = TypeVar("T")

INTRODUCTION = f"""\
# Reproduction

What the papers say and what came out here. `python -m experiments.report` writes this file from the results in `{RESULTS}`: tables,
statuses and figures are computed from them. Remarks below some tables are written by hand, in `experiments/reproduction`, with the commands
that gave their numbers. `python -m experiments.report --collect RUNS_DIR` adds finished and unfinished runs to the results.

Where no other paper is named, sections and tables are those of Miceli Barone, "Low-rank passthrough neural networks" (DeepLo 2018); arXiv
1603.03116 has the same figures but for LRD-GRU on the adding task. Published figures are single runs. Ours are means ± standard deviations
(n - 1) over seeds. Appendix A.1 is that of arXiv 1603.03116. On the copy and adding tasks the test set is the validation set, as in the
papers.

A claim is *reproduced* if every seed agrees with it: the criterion is met in fewer updates than published, squared error, perplexity and
bits round to the published figure or less, equivalent sizes are at most a hundredth larger, or accuracies are at most
{100 * MARGIN:.1f} percentage points below the published ones (0.1 for permutation-invariant MNIST). A run that did not get there counts as
*run at smaller scale* unless it made all updates, or ended by the rule that
ends training there. Where nothing was run yet, or the runs were of a shorter
kind, the command is the one that would. PATH stands for a path of the machine that ran it. Commands without `--data.dir` download what they
need, but for Europarl, whose archives have to be fetched by hand."""


def report(comparisons: Sequence[Comparison], records: Sequence[Record], further: Sequence[str] = ()) -> str:
    """The whole of REPRODUCTION.md, with `further` sections."""
    sections = [section(study, [c for c in comparisons if c.study is study and c.runs]) for study in studies_with_runs(comparisons)]
    parts = [INTRODUCTION, "## Published and ours", overview(comparisons), *sections, *further, *runs(comparisons, records)]
    return "\n\n".join(parts) + "\n"


def studies_with_runs(comparisons: Sequence[Comparison]) -> list[Study]:
    """Each once, in their order."""
    return list({c.study.name: c.study for c in comparisons if c.runs}.values())


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table of GitHub's Markdown; columns after the first `left` are aligned to the right."""
    rule = ["---"] * left + ["---:"] * (len(columns) - left)
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in (columns, rule, *rows))


def overview(comparisons: Sequence[Comparison]) -> str:
    """One row for each claim."""
    columns = ["task", "model", "in the paper", "published", "ours", "seeds", "updates", "hardware", "status", "command"]
    return table(columns, [_row(c) for c in comparisons], left=len(columns))


def _row(c: Comparison) -> list[str]:
    commands = _distinct(run.environment["command"] for run in c.runs)
    if None in c.verdicts.values() or not commands:
        commands = _distinct([*commands, c.study.command(c.claim)])
    return [
        c.study.title,
        c.model,
        c.claim.where,
        c.claim.published,
        "; ".join(ours(c, quantity) for quantity in c.claim.quantities) if c.runs else NONE,
        f"{len(c.runs)} ({', '.join(str(run.seed) for run in c.runs)})" if c.runs else NONE,
        span([run.updates for run in c.runs]) if c.runs else NONE,
        ", ".join(_distinct(run.hardware for run in c.runs)) or NONE,
        c.status,
        "<br>".join(f"`{command}`" for command in commands),
    ]


def ours(c: Comparison, quantity: Quantity) -> str:
    """'first update with ...: 28,000 ± 2,100 (2 of 3 seeds)'."""
    values = list(c.values(quantity).values())
    if not values:
        return f"{quantity.name}: {'not yet' if None in c.verdicts.values() else 'not'} in {span([run.updates for run in c.runs])} updates"
    spread = Spread.of(values)
    deviation = "" if spread.sd is None else f" ± {quantity.form.format(spread.sd)}"
    some = "" if len(values) == len(c.runs) else f" ({len(values)} of {len(c.runs)} seeds)"
    return f"{quantity.name}: {quantity.form.format(spread.mean)}{deviation}{some}"


def section(study: Study, comparisons: Sequence[Comparison]) -> str:
    """Figures of each seed, the learning curve in numbers, and the figure."""
    numbers = curve(study, comparisons)
    parts = [f"## {study.title}", "Each seed:", per_seed(comparisons), f"Learning curve, {study.score_name}:", numbers]
    parts += [f"({NONE} no evaluation at that update: the run had ended, or has not got there.)"] if f" {NONE} " in numbers else []
    parts += [study.remark.replace("\n", " ")] if study.remark else []
    return "\n\n".join([*parts, f"![{study.title}]({figure(study)})"])


def figure(study: Study) -> PurePosixPath:
    """Where the learning curves of a study are drawn, from the top of the repository."""
    return RESULTS / FIGURES / f"{study.name}.png"


def per_seed(comparisons: Sequence[Comparison]) -> str:
    """One row for each figure that is compared, one column for each seed, and their spread."""
    seeds = sorted({run.seed for c in comparisons for run in c.runs})
    rows = [_seed_row(c, quantity, seeds) for c in comparisons for quantity in c.claim.quantities]
    return table(["figure", "model", *(f"seed {seed}" for seed in seeds), "mean", "sd", "min", "max"], rows, left=2)


def _seed_row(c: Comparison, quantity: Quantity, seeds: Sequence[int]) -> list[str]:
    values = c.values(quantity)
    updates = {run.seed: run.updates for run in c.runs}
    cells = [_seed_cell(quantity, values.get(seed), updates.get(seed)) for seed in seeds]
    spread = Spread.of(list(values.values())) if values else None
    moments = (spread.mean, spread.sd, spread.low, spread.high) if spread else (None,) * 4
    return [quantity.name, c.model, *cells, *(NONE if value is None else quantity.form.format(value) for value in moments)]


def _seed_cell(quantity: Quantity, value: float | None, updates: int | None) -> str:
    if value is not None:
        return quantity.form.format(value)
    return NONE if updates is None else f"not in {updates:,}"


def curve(study: Study, comparisons: Sequence[Comparison]) -> str:
    """The score at certain updates: the published log's, and each run's."""
    columns = {f"published log, {study.log_of}": study.log} if study.log else {}
    columns |= {label: run.curve(study.score) for label, run in labelled_runs(comparisons).items()}
    reached = [update for update in study.updates if any(update in scores for scores in columns.values())]
    rows = [[f"{update:,}", *(study.form.format(s[update]) if update in s else NONE for s in columns.values())] for update in reached]
    return table(["update", *columns], rows, left=0)


def labelled_runs(comparisons: Sequence[Comparison]) -> dict[str, Record]:
    """'LRD-GRU 128/50, seed 0' -> run; a run that several claims are about comes once.

    Raises:
      ValueError: two runs have one label; their claims need a `setting`.
    """
    labelled: dict[str, Record] = {}
    for c in comparisons:
        for run in c.runs:
            if labelled.setdefault(f"{c.model}, seed {run.seed}", run) is not run:
                raise ValueError(f"two runs of {c.study.name} are labelled '{c.model}, seed {run.seed}': give their claims a setting")
    return labelled


def runs(comparisons: Sequence[Comparison], records: Sequence[Record]) -> list[str]:
    """Every run that is kept, and below what it ran on and with; nothing where there is none."""
    if not records:
        return []
    settings = _distinct(_setting(record) for record in records)
    columns = ["run", "bears on", "seed", "updates", "ended", "time", "setting"]
    rows = [_run_row(comparisons, record, settings.index(_setting(record)) + 1) for record in records]
    return [
        "## Runs",
        table(columns, rows, left=2),
        "## Hardware and versions",
        table(["setting", "hardware", "commit", "Python", *PACKAGES], [[str(i), *s] for i, s in enumerate(settings, start=1)], left=3),
    ]


def _run_row(comparisons: Sequence[Comparison], record: Record, setting: int) -> list[str]:
    name = f"{record.experiment}/{record.name}"
    about = _distinct(f"{c.study.title}: {c.model}" for c in comparisons if record in c.runs)
    cells = [str(record.seed), f"{record.updates:,}", record.state, str(timedelta(seconds=round(record.seconds))), str(setting)]
    return [f"[{name}]({RESULTS / name})", ", ".join(about) or "no published figure", *cells]


def _setting(record: Record) -> tuple[str, ...]:
    """Hardware, commit and versions."""
    environment = record.environment
    commit = (environment.get("commit") or "unknown")[:10] + (" with changes" if environment.get("dirty") else "")
    return record.hardware, commit, environment["python"], *(environment["versions"].get(name) or NONE for name in PACKAGES)


def _distinct(items: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(items))
