"""The swarm of random settings, as a section of the report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.jsb import swarm
from experiments.report.markdown import RESULTS, table
from experiments.report.records import FIGURES, anonymous, load_summary

KEPT = RESULTS / "jsb_swarm.json"
FIGURE = RESULTS / FIGURES / "jsb_swarm.png"

TITLE = "## JSB chorales, recurrence depth"
NOT_YET = "Not yet run: `python -m experiments.jsb swarm --data.source jsb --data.dir DIR`"

PUBLISHED = """\
Zilly et al., "Recurrent Highway Networks" (ICML 2017), section 5.1 and Figure 4, whose dots have no numbers in the text: "both DT-RNN and
DT(S)-RNN become considerably harder to optimize with increasing depth", "increasing the recurrence depth does not adversely affect
optimization of RHNs". Sizes and settings are not printed either; theirs grow with depth, as ours do."""

NAMES = {"rhn": "RHN", "dt_rnn": "DT-RNN", "dts_rnn": "DT(S)-RNN"}


def section(root: Path) -> str:
    """What was published, what was drawn and run, and the losses of each architecture and depth; or the command that would make them.

    Raises:
      UsageError: the result file is damaged.
    """
    summary = load_summary(root / KEPT)
    if summary is None:
        return f"{TITLE}\n\n{PUBLISHED}\n\n{NOT_YET}"
    dots, options, environment = (summary[name] for name in ("dots", "options", "environment"))
    ranges = [f"{low:g} to {high:g}" for low, high in (options["learning_rate"], options["spread"])]
    drawn = len(options["cells"]) * len(options["depths"]) * options["settings"]
    share = f"{len(dots)} networks" + f", the finished ones of {drawn}" * (len(dots) < drawn)
    updates, seconds = max(dot["updates"] for dot in dots), sum(dot["seconds"] for dot in dots)
    ours = f"""\
Ours, at smaller scale: {share}, {options["settings"]} random settings for each architecture and depth, {updates:,} updates of
momentum 0.9 on batches of 32 pieces. Learning rates are from {ranges[0]}, standard deviations of initial matrices from {ranges[1]}, both
drawn uniformly in their logarithm, biases of carry gates from {", ".join(f"{bias:g}" for bias in options["carry_bias"])}. Figures are the
lowest mean of the training loss over {options["evaluate_every"]} updates, in nats per frame. Training took {seconds / 60:.0f} minutes on a
machine with {environment["cpus"]} cores, which had other work to do: `{anonymous(environment["command"])}`"""
    columns = ["architecture", "depth", "units", "parameters", "best", "median", "worst"]
    parts = [TITLE, PUBLISHED, ours.replace("\n", " "), table(columns, _rows(dots)), f"![{TITLE.strip('# ')}]({FIGURE})"]
    return "\n\n".join(parts)


def draw(root: Path) -> None:
    """The figure, where the result file is kept."""
    summary = load_summary(root / KEPT)
    if summary is not None:
        swarm.draw(summary["dots"], root / FIGURE)


def _rows(dots: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    rows = []
    for cell, of_cell in swarm.by_group(dots).items():
        for depth, losses in of_cell.items():
            one = next(dot for dot in dots if (dot["cell"], dot["depth"]) == (cell, depth))
            figures = losses[0], float(np.median(losses)), losses[-1]
            rows.append([NAMES[cell], str(depth), str(one["size"]), f"{one['parameters']:,}", *(f"{loss:.2f}" for loss in figures)])
    return rows
