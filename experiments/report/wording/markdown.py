"""Markdown: tables, paths, and the pages that are not about one paper."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from operator import itemgetter
from pathlib import PurePosixPath
from typing import Any

from experiments.report.claims.judged import NONE
from experiments.report.kept.commands import command_line_of
from experiments.report.kept.records import Record
from lrpt.runs.layout import FIGURES

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
    settings = _labels([_setting(record) for record in records])
    rows = [_run_row(record, settings[_setting(record)]) for record in records]
    conditions = [[label, *setting[1:]] for setting, label in settings.items()]
    of_studies = {f"{name}.json": command_line_of(study) for name, study in studies.items()}
    of_runs = {f"{record.experiment}/{record.name}": record.environment["command"] for record in records}
    commands = "\n".join(f"# {name}\n{command}" for name, command in (of_studies | of_runs).items())
    parts = [
        "# Kept runs",
        "Each run is a directory of `experiments/results`, and each study of many runs a file. PATH stands for a path of the machine that "
        "ran it. Times are those of training and evaluation by the clock, on machines that other programs may have shared. "
        "[Overview](../../REPRODUCTION.md)",
        table(["run", "seed", "updates", "ended", "h:mm:ss", "environment"], rows, left=1),
        "## Environments",
        "An environment is a commit of this repository on one kind of machine, with versions of packages. Where the hardware is "
        "CPU, 2 cores, the processor was not recorded.",
        table(["environment", "hardware", "Python", *PACKAGES], conditions, left=2),
        "## Commands",
        "Commands are as given at the commit of the environment. Presets may have changed since; `config.json` of a run has its "
        "configuration. The file of a study may join the results of several commands; the command here has the options of the file. "
        "`reproduce` and `--vary` train several runs.",
        f"```bash\n{commands}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _run_row(record: Record, setting: str) -> list[str]:
    name = f"{record.experiment}/{record.name}"
    cells = [str(record.seed), f"{record.updates:,}", record.state, str(timedelta(seconds=round(record.seconds))), setting]
    return [f"[{name}](../../{RESULTS / name})", *cells]


def _setting(record: Record) -> tuple[str, ...]:
    """Return commit, hardware and versions."""
    environment = record.environment
    commit = (environment.get("commit") or "unknown")[:10] + (" with changes" if environment.get("dirty") else "")
    return commit, record.hardware, environment["python"], *(environment["versions"].get(name) or NONE for name in PACKAGES)


def _labels(settings: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Return a label of each setting, in their order: its commit, with a number after the first. A further run renames no other's."""
    labels: dict[tuple[str, ...], str] = {}
    for commit, group in groupby(sorted(set(settings)), key=itemgetter(0)):
        labels |= {setting: commit if i == 1 else f"{commit} ({i})" for i, setting in enumerate(group, start=1)}
    return labels
