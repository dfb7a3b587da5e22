"""Markdown: tables, paths, and the pages that are not about one paper."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Any

from experiments.report.judged import NONE
from experiments.report.records import FIGURES, Record

RESULTS = PurePosixPath("experiments/results")
PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "lrpt")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a table of GitHub's Markdown; columns after the first `left` are aligned to the right."""
    rule = ["---"] * left + ["---:"] * (len(columns) - left)
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in (columns, rule, *rows))


def figure_path(name: str) -> PurePosixPath:
    """Return where a figure is drawn, from the top of the repository."""
    return RESULTS / FIGURES / name


def runs_page(records: Sequence[Record], studies: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page of all runs and studies: how they ended, what they ran on and with, and their commands."""
    settings = list(dict.fromkeys(_setting(record) for record in records))
    rows = [_run_row(record, settings.index(_setting(record)) + 1) for record in records]
    hardware = [[str(i), *s[:3]] for i, s in enumerate(settings, start=1)]
    versions = [[str(i), *s[3:]] for i, s in enumerate(settings, start=1)]
    of_studies = {f"{name}.json": study["environment"]["command"] for name, study in studies.items()}
    of_runs = {f"{record.experiment}/{record.name}": record.environment["command"] for record in records}
    commands = "\n".join(f"# {name}\n{command}" for name, command in (of_studies | of_runs).items())
    parts = [
        "# Kept runs",
        "Each run is a directory of `experiments/results`, and each study of many runs a file. PATH stands for a path of the machine that "
        "ran it. "
        "[Overview](../../REPRODUCTION.md)",
        table(["run", "seed", "updates", "ended", "time", "setting"], rows, left=1),
        "## Hardware",
        table(["setting", "hardware", "commit", "Python"], hardware, left=3),
        "## Versions",
        table(["setting", *PACKAGES], versions, left=1),
        "## Commands",
        f"```bash\n{commands}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _run_row(record: Record, setting: int) -> list[str]:
    name = f"{record.experiment}/{record.name}"
    cells = [str(record.seed), f"{record.updates:,}", record.state, str(timedelta(seconds=round(record.seconds))), str(setting)]
    return [f"[{name}](../../{RESULTS / name})", *cells]


def _setting(record: Record) -> tuple[str, ...]:
    """Return hardware, commit and versions."""
    environment = record.environment
    commit = (environment.get("commit") or "unknown")[:10] + (" with changes" if environment.get("dirty") else "")
    return record.hardware, commit, environment["python"], *(environment["versions"].get(name) or NONE for name in PACKAGES)
