"""Report of published and own results: REPRODUCTION.md and a page for each paper, from the results that are kept with the code.

    python -m experiments.report --collect RUNS_DIR     copies the small files of every run below RUNS_DIR to experiments/results
    python -m experiments.report                        writes REPRODUCTION.md, docs/reproduction, model cards and figures from
                                                        experiments/results
    python -m experiments.report --check                exits with 1 if that would change a page, or an image of one is missing
    python -m experiments.report --verify adding        evaluates the kept weights of an experiment again, and exits with 1 if they disagree
    python -m experiments.report --verify RUN_DIR       the same for the checkpoint of a run, or of each run below a directory

A run is kept as `experiments/results/<experiment>/<run directory>/` with `config.json`, `environment.json`, `metrics.jsonl` and, unless it
was stopped before its end, `result.json`; a run whose loss was not finite also has `failure.json`. The weights of its best state are in
`model.npz` if they take at most 5 MB, and their model card is `README.md`. Of a study (`experiments.fair_crossing`, the swarm of
`experiments.jsb`, the subcommands of `experiments.lattice`), --collect copies the summary, as in
`experiments/results/fair_crossing_time.json`, and not its runs. What was published is in `experiments.report.papers`.
"""

from collections.abc import Sequence
from pathlib import Path

from experiments.report.options import PROGRAM, Options
from lrpt.cli.command import leaving_with_a_line
from lrpt.cli.flags import parse_dataclass
from lrpt.runs.console import Console

ROOT = Path(__file__).parents[2]
AGAIN = "correct this and repeat the command"


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> None:
    """Run the command; exit with 2 for a wrong flag, with 1 for a damaged file or a stale page."""
    console = Console()
    with leaving_with_a_line(console, AGAIN):
        description = "Compare published and own results: write REPRODUCTION.md and its pages from experiments/results."
        options = parse_dataclass(Options, arguments, PROGRAM, description, Options())
        from experiments.report import writing  # imported here because it imports every experiment, and --help need not wait for that

        writing.run(options, root, console)
