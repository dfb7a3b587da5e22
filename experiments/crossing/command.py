"""Comparison of cells and parametrizations at equal numbers of parameters, on one text.

    python -m experiments.crossing                                                   five cells, three parametrizations, three seeds each
    python -m experiments.crossing --data.source ptb --data.dir DIR --parameters 1000000 --updates 8000 --evaluate-every 400
    python -m experiments.crossing --cells gru lru --ratio 0.25 --seeds 5            other cells, other ranks, more seeds

All networks predict the next character, and have embeddings as wide as their state. So all matrices of a cell, for inputs and for states,
are square and stored in the same way. The width of each network is the one whose number of parameters is closest to `--parameters`. The
rank is `--ratio` times the width. The table does not compare speed: low-rank networks are wider.

By default the command takes 25 minutes on two cores. Ranks are whole numbers, so numbers of parameters may differ from the budget by some
percent; the table gives them. Finished runs are not trained again, and other runs resume from their last checkpoint. With more `--updates`
all runs resume. `crossing.json`, in `--workdir`, holds every finished run. Commands for other `--cells` may run at the same time, in the
same `--workdir` and with `--devices 1`; then the command for all cells draws the table.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from experiments.crossing.figure import crossing_figure
from lrpt.analysis.budgets import LanguageModelSize, closest_width
from lrpt.cells import CELLS
from lrpt.cli.command import leaving_with_a_line
from lrpt.cli.flags import check_seeds, parse_dataclass
from lrpt.cli.studies import Finished, Row, Study, grouped
from lrpt.cli.summary import mean_and_deviation
from lrpt.errors import UsageError, check_at_least, check_choice, check_distinct
from lrpt.networks.configuration import EmbeddingConfig, InitialConfig, InputStorageConfig, TiedStorageConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.optim import OptimConfig
from lrpt.parametrizations import PARAMETRIZATIONS, MatrixConfig
from lrpt.runs.console import Console
from lrpt.tasks import NextSymbol
from lrpt.training.config import RunConfig, TrainConfig
from lrpt.training.loop import Job

SUMMARY = "crossing.json"
SCORE = "bits_per_character"


@dataclass(frozen=True)
class Options:
    """Flags of the command."""

    data: NextSymbol = field(default_factory=lambda: NextSymbol(reading="stream", steps=50))
    cells: tuple[str, ...] = ("gru", "lstm", "rhn", "lru", "vcgru")
    """rows of the table: any cells of a language model"""
    matrices: tuple[str, ...] = ("dense", "low_rank", "low_rank_plus_diagonal")
    """columns of the table: parametrizations of all matrices of a cell"""
    parameters: int = 30_000
    """approximate number of parameters of each network"""
    ratio: float = 0.125
    """ranks as a share of the width"""
    layers: int = 1
    """layers of each network"""
    depth: int = 2
    """transitions within a step, for cells that can have several"""
    updates: int = 600
    """updates of each network"""
    evaluate_every: int = 100
    """updates between evaluations; the best one is reported"""
    batch_size: int = 32
    """number of streams that read the text"""
    learning_rate: float = 5e-3
    """learning rate of Adam"""
    seeds: int = 3
    """number of networks for each cell and parametrization"""
    seed: int = 0
    """first seed"""
    devices: int | None = None
    """devices to use, as in training"""
    workdir: Path = Path("runs/crossing")
    """directory of the runs, the summary and the plot"""

    def __post_init__(self) -> None:
        for name, known in (("cells", CELLS), ("matrices", PARAMETRIZATIONS)):
            chosen = getattr(self, name)
            check_distinct(name, chosen)
            for one in chosen:
                check_choice(name, one, known)
        check_at_least(1, self, "parameters", "layers", "depth", "updates", "evaluate_every", "batch_size", "seeds")
        if not 0 < self.ratio <= 1:
            raise UsageError(f"ratio is {self.ratio}: expected a number above 0, at most 1")
        check_seeds(self.seed, self.seeds)

    def jobs(self) -> list[Job]:
        """Return one run for each cell, parametrization and seed."""
        symbols = self.data.build(self.seed).input_size
        return [job for cell in self.cells for matrices in self.matrices for job in self._of(self.model(cell, matrices, symbols))]

    def model(self, cell: str, matrices: str, symbols: int) -> ModelConfig:
        """Return the network whose number of parameters is closest to the budget."""
        depth = self.depth if CELLS[cell].deep else 1
        size = closest_width(partial(self._parameters, cell, matrices, symbols, depth), self.parameters).width
        rank = self.rank(size)
        return ModelConfig(
            cell,
            size,
            depth,
            layers=self.layers,
            matrices=TiedStorageConfig(matrices, rank),
            inputs=InputStorageConfig(matrices, rank),
            embeddings=EmbeddingConfig(size),
            initial=InitialConfig(trainable_state=False),
        )

    def rank(self, width: int) -> int:
        """Return the rank: `ratio` times the width, at least 1."""
        return max(1, round(self.ratio * width))

    def _parameters(self, cell: str, matrices: str, symbols: int, depth: int, width: int) -> int:
        stored = MatrixConfig() if matrices == "dense" else MatrixConfig(matrices, self.rank(width))
        return LanguageModelSize(symbols, cell, self.layers, depth, recurrent=stored, input=stored).parameters(width)

    def _of(self, model: ModelConfig) -> Iterator[Job]:
        train = TrainConfig(
            self.updates, self.batch_size, "stream", evaluate_every=self.evaluate_every, evaluation_batch=min(self.batch_size, 16)
        )
        config = RunConfig(model, OptimConfig("adam", self.learning_rate), train, self.data)
        for seed in range(self.seed, self.seed + self.seeds):
            yield Job(config, seed, self.workdir / f"{model.cell}-{model.matrices.kind}-seed{seed}")


def keep(options: Options, job: Job, result: Mapping[str, Any]) -> Row:
    """Return the row of a run: its model, and its metrics on the test split at the best validation loss."""
    model: Any = job.config.model
    kind = model.matrices.kind
    return {
        "cell": model.cell,
        "parametrization": kind,
        "size": model.size,
        "depth": model.depth,
        "rank": None if kind == "dense" else model.matrices.rank,
        "seed": job.seed,
        "parameters": result["parameters"]["true"],
        "loss": result["metrics"]["test"]["loss"],
        SCORE: result["metrics"]["test"][SCORE],
        f"valid_{SCORE}": result["metrics"]["valid"][SCORE],
        "updates": result["updates"],
        "seconds": result["seconds"],
    }


def show(options: Options, finished: Sequence[Finished], console: Console) -> Mapping[str, Any]:
    """Print a row for each cell and parametrization, and draw the plot."""
    runs = [one.row for one in finished]
    rows = [_row(of_kind) for of_cell in by_group(runs).values() for of_kind in of_cell.values()]
    console.table(["cell", "matrices", "width", "rank", "parameters", "test bits per character", "deviation"], rows, title(runs))
    draw(runs, options.workdir / "figures" / "crossing.png")
    return {}


def draw(runs: Sequence[Row], path: Path) -> Path:
    """Plot these runs."""
    groups = {cell: {kind: [one[SCORE] for one in of_kind] for kind, of_kind in row.items()} for cell, row in by_group(runs).items()}
    return crossing_figure(groups, path, title(runs), "test bits per character")


def title(runs: Sequence[Row]) -> str:
    """Return a title with the sizes, updates and seeds of these runs."""
    parameters = [one["parameters"] for one in runs]
    seeds = len({one["seed"] for one in runs})
    updates = max(one["updates"] for one in runs)
    return f"{min(parameters):,} to {max(parameters):,} parameters, {updates:,} updates, {seeds} seed{'s' * (seeds > 1)}"


def by_group(runs: Sequence[Row]) -> dict[str, dict[str, list[Row]]]:
    """Group runs: cell -> parametrization -> the runs of all seeds."""
    return grouped(runs, "cell", "parametrization")


def _row(runs: Sequence[Row]) -> list[str]:
    scores = [one[SCORE] for one in runs]
    first = runs[0]
    rank = "" if first["rank"] is None else str(first["rank"])
    size = [str(first["size"]), rank, f"{first['parameters']:,}"]
    return [first["cell"], first["parametrization"].replace("_", " "), *size, *mean_and_deviation(scores)]


STUDY = Study(
    experiment="crossing",
    preset="custom",
    summary=SUMMARY,
    rows="runs",
    together=lambda options: (options.seeds, options.batch_size),
    jobs=Options.jobs,
    keep=keep,
    show=show,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison from a command line. Map errors to one line and an exit status."""
    console = Console()
    with leaving_with_a_line(console):
        words = sys.argv[1:] if arguments is None else arguments
        about = "Train cells with full, low-rank and low-rank plus diagonal matrices at equal numbers of parameters."
        STUDY.run(parse_dataclass(Options, words, "python -m experiments.crossing", about, Options()), console)
