"""Crosses cells with ways to store their matrices, at equal numbers of parameters, on one text.

    python -m experiments.crossing                                                   five cells, three parametrizations, three seeds each
    python -m experiments.crossing --data.source ptb --data.dir DIR --parameters 1000000 --updates 8000 --evaluate-every 400
    python -m experiments.crossing --cells gru lru --ratio 0.25 --seeds 5            other cells, other ranks, more seeds

All networks predict the next character, and have vectors for symbols that are as wide as their state. So all matrices of a cell are square,
on inputs as on states, and all are stored in the same way. The width of each network is the one whose number of parameters is closest to
`--parameters`, where the rank is `--ratio` times the width. Its place in the table says nothing of its speed: low-rank networks are wider.

By default it takes 25 minutes on two cores. Ranks are whole numbers, so that numbers of parameters may be some percent off the budget;
the table gives them. Finished runs are not trained again, and others go on from their last checkpoint: with more `--updates` all do.
`crossing.json`, in `--workdir`, holds every finished run. Commands for other `--cells` may run at the same time, in the same `--workdir`
and with `--devices 1`; then the command for all cells draws the table.
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
from lrpt.cli.command import concluding, leaving_with_a_line
from lrpt.cli.flags import check_seeds, parse_dataclass
from lrpt.cli.studies import origin, with_results
from lrpt.cli.summary import mean_and_deviation
from lrpt.devices import parallel
from lrpt.errors import UsageError, check_at_least, check_choice, check_distinct
from lrpt.networks.configuration import EmbeddingConfig, InitialConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.optim import OptimConfig
from lrpt.parametrizations import PARAMETRIZATIONS, MatrixConfig
from lrpt.runs.console import Console
from lrpt.runs.run_directory import write_json
from lrpt.tasks import NextSymbol
from lrpt.training.config import RunConfig, TrainConfig
from lrpt.training.loop import Job, fit_all

SUMMARY = "crossing.json"
SCORE = "bits_per_character"


@dataclass(frozen=True)
class Options:
    """What a command line says."""

    data: NextSymbol = field(default_factory=lambda: NextSymbol(reading="stream", steps=50))
    cells: tuple[str, ...] = ("gru", "lstm", "rhn", "lru", "vcgru")
    """rows of the table: any cells of a language model"""
    matrices: tuple[str, ...] = ("dense", "low_rank", "low_rank_plus_diagonal")
    """columns of the table: how all matrices of a cell are stored"""
    parameters: int = 30_000
    """about how many each network has"""
    ratio: float = 0.125
    """ranks as a share of the width"""
    layers: int = 1
    """of each network"""
    depth: int = 2
    """transitions within a step, for cells that have several"""
    updates: int = 600
    """of each network"""
    evaluate_every: int = 100
    """updates between evaluations; the best one is reported"""
    batch_size: int = 32
    """streams that the text is read in"""
    learning_rate: float = 5e-3
    """of Adam"""
    seeds: int = 3
    """networks for each cell and parametrization"""
    seed: int = 0
    """the first one's seed"""
    devices: int | None = None
    """devices to use, as in training"""
    workdir: Path = Path("runs/crossing")
    """where run directories, the summary and the figure go"""

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
        """One run for each cell, parametrization and seed."""
        symbols = self.data.build(self.seed).input_size
        return [job for cell in self.cells for matrices in self.matrices for job in self._of(self.model(cell, matrices, symbols))]

    def model(self, cell: str, matrices: str, symbols: int) -> ModelConfig:
        """The network whose number of parameters is closest to the budget."""
        depth = self.depth if CELLS[cell].deep else 1
        size = closest_width(partial(self._parameters, cell, matrices, symbols, depth), self.parameters).width
        rank = self.rank(size)
        structure = {"parametrization": matrices, "input_parametrization": matrices, "rank": rank, "input_rank": rank}
        return ModelConfig(
            cell,
            size,
            depth,
            layers=self.layers,
            embeddings=EmbeddingConfig(size),
            initial=InitialConfig(trainable_state=False),
            **structure,
        )  # type: ignore[arg-type]

    def rank(self, width: int) -> int:
        """The share of the width, at least 1."""
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
            yield Job(config, seed, self.workdir / f"{model.cell}-{model.parametrization}-seed{seed}")


def run(options: Options, console: Console) -> None:
    """Trains what is not finished, and writes `crossing.json` and the figure; where training is interrupted, those of what is finished."""
    parallel.request_devices(options.devices, options.seeds, options.batch_size)  # now, as counting parameters starts JAX
    jobs = options.jobs()
    with concluding(partial(summarize, options, jobs, console)):
        fit_all(jobs, names={"experiment": "crossing", "preset": "custom"}, devices=options.devices, console=console)


def summarize(options: Options, jobs: Sequence[Job], console: Console) -> None:
    """Writes `crossing.json` and the figure from the finished ones of these runs, if there are any.

    It holds 'options', 'environment', and under 'runs' what `kept` says of each.
    """
    found = with_results(jobs)
    if not found:
        return
    runs = [kept(job, result) for job, result in found]
    write_json(options.workdir / SUMMARY, {**origin(options, found[0][0]), "runs": runs})
    figure = draw(runs, options.workdir / "figures" / "crossing.png")
    _show(runs, title(runs), console)
    console.say(f"{len(runs)} of {len(jobs)} runs are finished   summary: {options.workdir / SUMMARY}   figure: {figure}")


def draw(runs: Sequence[dict[str, Any]], path: Path) -> Path:
    """The figure of these runs."""
    groups = {cell: {kind: [one[SCORE] for one in of_kind] for kind, of_kind in row.items()} for cell, row in by_group(runs).items()}
    return crossing_figure(groups, path, title(runs), "test bits per character")


def title(runs: Sequence[dict[str, Any]]) -> str:
    """What these runs have in common."""
    parameters = [one["parameters"] for one in runs]
    seeds = len({one["seed"] for one in runs})
    updates = max(one["updates"] for one in runs)
    return f"{min(parameters):,} to {max(parameters):,} parameters, {updates:,} updates, {seeds} seed{'s' * (seeds > 1)}"


def kept(job: Job, result: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a run: what it trained, and its figures on the test part at the best validation loss."""
    model: Any = job.config.model
    return {
        **{name: getattr(model, name) for name in ("cell", "parametrization", "size", "depth")},
        "rank": None if model.parametrization == "dense" else model.rank,
        "seed": job.seed,
        "parameters": result["parameters"]["true"],
        "loss": result["metrics"]["test"]["loss"],
        SCORE: result["metrics"]["test"][SCORE],
        f"valid_{SCORE}": result["metrics"]["valid"][SCORE],
        "updates": result["updates"],
        "seconds": result["seconds"],
    }


def by_group(runs: Sequence[dict[str, Any]]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Cell -> parametrization -> the runs of its seeds."""
    groups: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for one in runs:
        groups.setdefault(one["cell"], {}).setdefault(one["parametrization"], []).append(one)
    return groups


def _show(runs: Sequence[dict[str, Any]], title: str, console: Console) -> None:
    rows = [_row(of_kind) for row in by_group(runs).values() for of_kind in row.values()]
    console.table(["cell", "matrices", "width", "rank", "parameters", "test bits per character", "deviation"], rows, title)


def _row(runs: Sequence[dict[str, Any]]) -> list[str]:
    scores = [one[SCORE] for one in runs]
    first = runs[0]
    rank = "" if first["rank"] is None else str(first["rank"])
    size = [str(first["size"]), rank, f"{first['parameters']:,}"]
    return [first["cell"], first["parametrization"].replace("_", " "), *size, *mean_and_deviation(scores)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Crosses what the command line says, and leaves as `leaving_with_a_line` does."""
    console = Console()
    with leaving_with_a_line(console):
        words = sys.argv[1:] if arguments is None else arguments
        about = "Trains cells with full, low-rank and low-rank plus diagonal matrices at equal numbers of parameters."
        run(parse_dataclass(Options, words, "python -m experiments.crossing", about, Options()), console)
