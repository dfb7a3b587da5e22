"""Training of the runs that the papers' claims need: a plan with costs, runs that resume, and collected results.

    python -m experiments.reproduce --list                                       the runs of every claim, with hours and progress
    python -m experiments.reproduce --list --measure --claims "Table 1"          the hours measured on this machine, by a few updates each
    python -m experiments.reproduce --paper low_rank --hours 8 --data.dir DIR    the runs that fit into eight hours, cheapest first
    python -m experiments.reproduce --scale smaller --claims "depth helps"       the smaller runs that stand in for published ones
    python -m experiments.reproduce --collect experiments/results                all runs; results are kept as soon as a run ends
    python -m experiments.reproduce --hours 2 --unfinished experiments/unfinished    goes on where another machine has stopped

A run has the directory WORKDIR/<experiment>/<name>-seed<k>. Runs that are kept in experiments/results or have ended in WORKDIR are
skipped; the others resume from their checkpoints. Without --scale, the runs are those of published size. Many of them are too expensive
for a core, and the report judges smaller runs in their place: `--scale smaller` plans these, `--scale all` both.

Hours without ~ were measured: on this machine (--measure, which stores them), or for `python -m experiments`, which lists the same costs of
presets on a core. Hours marked with ~ are estimated from counts of operations, to an order of magnitude. On CPUs they are multiplied by the
ratio of measured to estimated cost of similar presets that were measured.

A study trains many models, and is kept as one summary. Its runs are below WORKDIR/<experiment>/<study>, and resume like others. At the end
the command says where the summary of those that are finished is. They are not packed by --unfinished. If the data of a run or of a study
are missing, it is named, and the others go on.

Exit status: 0 everything that was started is finished, 1 some runs have failed, or could not start, be collected or be packed, 2 a flag is
wrong, 128 + n on signal n.
"""

import sys
from collections.abc import Sequence

from experiments.reproduce.options import Options
from lrpt.cli.command import leaving_with_a_line
from lrpt.cli.flags import parse_dataclass
from lrpt.runs.console import Console

PROGRAM = "python -m experiments.reproduce"
USAGE = "Train the runs that the papers' claims need; --list prints them with their costs."


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, and print or train the plan."""
    console = Console()
    with leaving_with_a_line(console):
        options = parse_dataclass(Options, arguments, PROGRAM, USAGE, Options())
        from experiments.reproduce import runner  # imported here because it imports every experiment, and --help need not wait for that

        code = runner.reproduce(options, console)
    sys.exit(code)
