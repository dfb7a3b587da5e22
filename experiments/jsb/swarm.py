"""Subcommand `swarm` of `experiments.jsb`: every architecture and depth at random settings, one dot for each.

Zilly et al. 2017, Figure 4.

    python -m experiments.jsb swarm                                   15,000 to 90,000 parameters, on drawn chords
    python -m experiments.jsb swarm --preset paper --data.dir DIR     150,000 to 900,000 parameters, on the JSB chorales

The line in the plot is the loss of the best constant predictor of the training split, which is computed from the data. A network whose dot
lies above it has learned less than how often each note sounds. The optimizer clips the norm of gradients at 10, of which the paper's main
text says nothing.

Finished runs are not trained again, and other runs resume from their last checkpoint. Settings depend on the seed, the architecture and
the depth alone. So commands for other `--cells`, or for other `--depths` with their `--parameters`, may run at the same time, in the same
`--workdir` and with `--devices 1`; then the command for all of them writes the summary.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.jsb.swarm_figure import by_group, swarm_figure
from lrpt.analysis.budgets import closest_width, quadratic
from lrpt.cells import CELLS
from lrpt.cli.data_options import ChoralesOptions
from lrpt.cli.experiment import Subcommand
from lrpt.cli.flags import check_seeds
from lrpt.cli.limits import check_runs
from lrpt.cli.studies import Finished, Row, StudyCommand
from lrpt.datasets.piano_roll import NOTES
from lrpt.errors import UsageError, check_at_least, check_choice, check_distinct
from lrpt.networks.counting import count
from lrpt.networks.sequence_model import ModelConfig
from lrpt.runs.console import Console
from lrpt.runs.layout import FIGURES
from lrpt.runs.run_directory import RunDirectory
from lrpt.tasks import Chorales
from lrpt.tasks.chorales import constant_loss
from lrpt.training.config import RunConfig
from lrpt.training.loop import Job

SWARM = "swarm.json"

CONSTANT = "constant_predictor_loss"
"""Entry of the summary: nats per frame of the training split for the best constant predictor."""

CELLS_OF_PAPER = ("rhn", "dt_rnn", "dts_rnn")
BUDGETS = {1: 150_000, 2: 300_000, 4: 600_000, 6: 900_000}
"""Recurrence depth -> approximate number of parameters of each architecture."""


@dataclass(frozen=True)
class Options:
    """Flags of the command. The settings of each architecture and depth are drawn independently."""

    data: ChoralesOptions = field(default_factory=Chorales)
    preset: str = "quick"
    """quick: 15,000 to 90,000 parameters on drawn chords; paper: 150,000 to 900,000 parameters on the JSB chorales"""
    cells: tuple[str, ...] = CELLS_OF_PAPER
    """names of cells"""
    depths: tuple[int, ...] = tuple(BUDGETS)
    """transitions within a step"""
    parameters: tuple[int, ...] = (15_000, 30_000, 60_000, 90_000)
    """approximate number of parameters at each of these depths; networks of the paper also grow with depth"""
    settings: int = 10
    """number of settings for each architecture and depth"""
    learning_rate: tuple[float, float] = (1e-4, 1.0)
    """range from which learning rates are drawn, uniformly in their logarithm"""
    spread: tuple[float, float] = (1e-8, 1e-2)
    """range from which standard deviations of initial matrices are drawn, uniformly in their logarithm"""
    carry_bias: tuple[float, ...] = (0.0, 1.0, 2.0, 3.0)
    """values from which initial biases of carry gates are drawn; transform gates get the negative value"""
    updates: int = 700
    """updates of each network; an epoch of the chorales has 7"""
    evaluate_every: int = 70
    """updates between evaluations; training losses are means over these updates"""
    seed: int = 0
    """first seed of the runs, and seed of the settings"""
    devices: int | None = None
    """devices to use, as in training"""
    workdir: Path = Path("runs/jsb/swarm")
    """directory of the runs, the summary and the plot"""
    huge: bool = False
    """go on even if the estimate exceeds the limit"""

    def __post_init__(self) -> None:
        check_distinct("cells", self.cells)
        check_distinct("depths", [str(depth) for depth in self.depths])
        for cell in self.cells:
            check_choice("cells", cell, [name for name in CELLS if CELLS[name].deep])
        if len(self.parameters) != len(self.depths):
            raise UsageError(f"parameters has {len(self.parameters)} numbers and depths {len(self.depths)}: give the same number of both")
        check_at_least(1, self, "settings", "updates", "evaluate_every")
        check_runs(self.settings, self.huge)
        for name in ("learning_rate", "spread"):
            low, high = getattr(self, name)
            if not 0 < low <= high < math.inf:
                raise UsageError(f"{name} is {low} {high}: expected two finite numbers above 0, the smaller one first")
        if not self.carry_bias:
            raise UsageError("carry_bias is empty: give at least one number")
        check_seeds(self.seed, self.settings)

    def jobs(self, base: RunConfig[Any]) -> list[Job]:
        """Return one run for each setting."""
        groups = [(cell, depth, budget) for cell in self.cells for depth, budget in zip(self.depths, self.parameters, strict=True)]
        return [Job(*drawn) for group in groups for drawn in self._drawn(base, *group)]

    def _drawn(self, base: RunConfig[Any], cell: str, depth: int, parameters: int) -> Iterator[tuple[RunConfig[Any], int, Path]]:
        model: Any = replace(base.model, cell=cell, depth=depth)
        model = replace(model, size=width(model, parameters))
        train = replace(base.train, updates=self.updates, evaluate_every=self.evaluate_every, patience=None)
        rng = np.random.default_rng([self.seed, *_numbers(cell, depth)])
        for number in range(self.settings):
            rate, spread = (float(np.exp(rng.uniform(*np.log(bounds)))) for bounds in (self.learning_rate, self.spread))
            own: Any = replace(model, initialization="normal", initial_scale=spread, carry_bias=float(rng.choice(self.carry_bias)))
            config = RunConfig(own, replace(base.optim, learning_rate=rate), train, self.data)
            yield config, self.seed + number, self.workdir / f"{own.cell}-depth{own.depth}-setting{number}"


def _numbers(cell: str, depth: int) -> tuple[int, int]:
    """Return the numbers of an architecture and a depth, which seed their settings in every command that has both."""
    cells = [*CELLS_OF_PAPER, *sorted(name for name in CELLS if name not in CELLS_OF_PAPER)]
    depths = list(BUDGETS)
    return cells.index(cell), depths.index(depth) if depth in depths else len(depths) + depth


def width(model: ModelConfig, parameters: int) -> int:
    """Return the width at which the number of parameters of a network on notes is closest to `parameters`."""
    return closest_width(quadratic(lambda size: count(replace(model, size=size), NOTES, NOTES).true), parameters).width


def swarm(experiment: str, base: RunConfig[Any]) -> Subcommand:
    """Return the subcommand that trains many small networks.

    Args:
      experiment: name of the experiment that the runs record.
      base: configuration that every setting changes.
    """
    about = "Train every architecture and depth at random settings, side by side, and draw a dot for each."
    large = Options(Chorales("jsb"), "paper", parameters=tuple(BUDGETS.values()), workdir=Path("runs/jsb/swarm-paper"))
    found = study(experiment, base)
    return Subcommand(Options, found.run, Options(), about, {large.preset: large}, found)


def study(experiment: str, base: RunConfig[Any]) -> StudyCommand[Options]:
    """Return the study of an experiment in which every setting changes `base`."""
    return StudyCommand(
        experiment=experiment,
        preset=lambda options: options.preset,
        summary=SWARM,
        rows="dots",
        together=lambda options: (options.settings, base.train.batch_size),
        jobs=lambda options: options.jobs(base),
        keep=keep,
        show=show,
        identify=identify,
    )


def identify(options: Options, job: Job) -> Row:
    """Return the fields of a run's row that are known before it is trained, and tell it from the others."""
    model: Any = job.config.model
    return {"cell": model.cell, "depth": model.depth, "size": model.size, "seed": job.seed}


def keep(options: Options, job: Job, result: Mapping[str, Any]) -> Row:
    """Return the row of a run: its settings, its lowest mean training loss between evaluations, and its lowest validation loss."""
    model: Any = job.config.model
    train = [line["loss"] for line in RunDirectory(job.path).metrics() if line["split"] == "train"]
    return {
        **identify(options, job),
        "initial_scale": model.initial.scale,
        "carry_bias": model.initial.carry_bias,
        "learning_rate": job.config.optim.initial_learning_rate,
        "parameters": result["parameters"]["true"],
        "lowest_train_loss": min(train),
        "lowest_valid_loss": result["metrics"]["valid"]["loss"],
        "updates": result["updates"],
        "seconds": result["seconds"],
    }


def show(options: Options, finished: Sequence[Finished], console: Console) -> Mapping[str, Any]:
    """Print the best, the median and the worst setting of each architecture and depth, and draw the plot."""
    dots = [one.row for one in finished]
    rows = [
        [cell, str(depth), str(len(losses)), *(f"{value:.3f}" for value in (min(losses), float(np.median(losses)), max(losses)))]
        for cell, of_cell in by_group(dots).items()
        for depth, losses in of_cell.items()
    ]
    console.table(["cell", "depth", "settings", "best", "median", "worst"], rows, "lowest training loss, nats per frame")
    constant = constant_loss(options.data.build(options.seed).splits["train"])
    better = sum(dot["lowest_train_loss"] < constant for dot in dots)
    console.say(f"{better} of {len(dots)} networks have a lower loss than the best constant predictor, {constant:.3f}")
    draw(dots, options.workdir / FIGURES / "swarm.png", constant)
    return {CONSTANT: constant}


def draw(dots: Sequence[Mapping[str, Any]], path: Path, constant: float) -> Path:
    """Plot these dots, and the loss of the best constant predictor as a line."""
    title = f"{len(dots)} networks after {max(one['updates'] for one in dots):,} updates"
    return swarm_figure(by_group(dots), path, title, constant)
