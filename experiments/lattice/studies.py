"""Studies of the lattice paper as subcommands: losses and convergence, statistical efficiency, gradients by layer.

    python -m experiments.lattice convergence      seven models: losses (Table 1), by epoch (Figures 3, 4), epochs until the best (Figure 6)
    python -m experiments.lattice efficiency       the same models on 20, 40, 60, 80 and 100 % of the data (Figure 5)
    python -m experiments.lattice gradients        a GRU and an LRU of ten layers: norms of gradients by layer and epoch (Figure 7)

With `--data.source ptb_joined --data.dir DIR --data.text-share 10` they read a tenth of the joined Penn Treebank, with
`--data.file BOOK.txt --data.text-share 20` a fifth of War and Peace, with `--data.source enwik8 --data.file PREFIX` the bytes of a
prefix of enwik8; by default the documentation of Python. Texts are read as the original code reads them (`experiments.lattice`).

Parameters start as in the original code; `--initialization lru glorot` trains each model from both starts. Each study trains the runs that
are missing below `--workdir`, resumes interrupted ones, and writes a JSON file and plots of the finished runs. The runs on all of the data
are the same for `convergence` and `efficiency`, and are trained once. An epoch is one reading of the training split, after which a network
is evaluated. Epochs until convergence are the epochs until the lowest validation loss; a run that is best at the last epoch allowed would
have needed at least as many.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np

from experiments.lattice.efficiency_figure import efficiency_figure
from experiments.lattice.epochs_figure import epochs_figure
from experiments.lattice.gradients_figure import layer_gradients_figure, layer_norms_by_epoch, mean_norms, top_to_bottom
from experiments.lattice.losses_figure import curves_of, losses_figure
from experiments.lattice.models import MODELS, NAMES, PAPER, PUBLISHED, START, name_of, sized
from experiments.lattice.ranking import ranked
from lrpt.cli.data_options import TextOptions
from lrpt.cli.experiment import Subcommand
from lrpt.cli.flags import check_seeds
from lrpt.cli.studies import Finished, Row, StudyCommand, grouped
from lrpt.cli.summary import mean_and_deviation
from lrpt.errors import UsageError, check_at_least, check_choice, check_distinct
from lrpt.parametrizations.initialization import INITIALIZATIONS
from lrpt.runs.console import Console
from lrpt.runs.run_directory import RunDirectory
from lrpt.tasks import NextSymbol
from lrpt.training.config import RunConfig
from lrpt.training.loop import Job

PYTHON = replace(PAPER.data, source="python")


@dataclass(frozen=True)
class Options:
    """Flags of a study."""

    data: TextOptions = field(default_factory=lambda: PYTHON)
    models: tuple[str, ...] = tuple(PUBLISHED)
    """lru, rg-lru, ps-lru, gru, lstm, grid-lstm, rhn, rhn-2-layers or grid-lstm-tied"""
    parameters: int = 300_000
    """approximate number of parameters of each network"""
    layers: int = 2
    """layers of each network: 2 or 4 in the paper (rhn has one, rhn-2-layers two)"""
    epochs: int = 20
    """largest number of epochs"""
    patience: int | None = 3
    """end training after this many epochs in a row without a new lowest validation loss (None: never)"""
    batch_size: int = 50
    """number of streams that read the text; 250 in the paper"""
    learning_rate: float = 1e-3
    """learning rate of Adam in the first epoch, multiplied by 0.9 after each epoch"""
    initialization: tuple[str, ...] = (START,)
    """initializations, each for all models: lru, as in the paper's code, or glorot, as in its text"""
    seeds: int = 3
    """number of networks for each model"""
    seed: int = 0
    """first seed"""
    devices: int | None = None
    """devices to use, as in training"""
    workdir: Path = Path("runs/lattice/studies")
    """directory of the runs, the summary and the plots"""

    def __post_init__(self) -> None:
        check_distinct("models", self.models)
        for name in self.models:
            check_choice("models", name, MODELS)
        check_distinct("initialization", self.initialization)
        for name in self.initialization:
            check_choice("initialization", name, INITIALIZATIONS)
        check_at_least(1, self, "parameters", "layers", "epochs", "batch_size", "seeds")
        if self.data.reading != "stream":
            raise UsageError(f"data.reading is {self.data.reading}: epochs are those of a stream")
        check_seeds(self.seed, self.seeds)

    def texts(self) -> Iterator[tuple[str, float, NextSymbol]]:
        """Yield a part of the names of run directories, the per cent of the data, and the task that reads it."""
        yield "all", 100, self.data

    def jobs(self) -> list[Job]:
        """Return one run for each model, text and seed."""
        runs = product(self.models, self.initialization, self.texts())
        return [job for name, start, (part, _, data) in runs for job in self._of(name, start, part, data)]

    def share(self, data: NextSymbol) -> float:
        """Return the per cent of the data that a run reads."""
        return next(share for _, share, own in self.texts() if own == data)

    def _of(self, name: str, start: str, part: str, data: NextSymbol) -> Iterator[Job]:
        symbols, epoch = _measure(data, self.batch_size)
        model = replace(sized(name, self.parameters, symbols, self.layers), initialization=start)
        tag = "" if start == "glorot" else f"-{start}"  # directories of earlier versions had one start and no tag
        train = replace(
            PAPER.train,
            updates=self.epochs * epoch,
            batch_size=self.batch_size,
            evaluate_every=epoch,
            evaluation_batch=self.batch_size,
            patience=self.patience,
        )
        config = RunConfig(model, replace(PAPER.optim, learning_rate=self.learning_rate), train, data)
        for seed in range(self.seed, self.seed + self.seeds):
            yield Job(config, seed, self.workdir / f"{name}-{part}{tag}-seed{seed}")


@cache
def _measure(data: NextSymbol, batch_size: int) -> tuple[int, int]:
    """Return the number of symbols of a text, and of updates in an epoch."""
    task = data.build(0)
    epoch = task.splits["train"].size // batch_size
    if not epoch:
        raise UsageError(
            f"batch_size is {batch_size}, and the training split has {task.splits['train'].size} windows: choose fewer streams"
        )
    return task.input_size, epoch


@dataclass(frozen=True)
class Convergence(Options):
    """Study of models with equal numbers of parameters: test losses, and epochs until the lowest validation loss."""


@dataclass(frozen=True)
class Efficiency(Options):
    """Study of the models of `convergence` on growing shares of the data."""

    shares: tuple[float, ...] = (20, 40, 60, 80, 100)
    """per cent of the data"""
    test: Literal["fixed", "moving"] = "fixed"
    """fixed: shares of the training split, with one test split; moving: shares of the text, each split anew, as in the original code"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.shares or len(set(self.shares)) < len(self.shares) or not all(0 < share <= 100 for share in self.shares):
            raise UsageError(
                f"shares is {' '.join(map(str, self.shares)) or 'empty'}: expected numbers above 0, at most 100, and none twice"
            )

    def texts(self) -> Iterator[tuple[str, float, NextSymbol]]:
        name = {"fixed": "train_share", "moving": "text_share"}[self.test]
        for share in sorted(self.shares):
            if share == 100:
                yield from super().texts()
            else:
                of = getattr(self.data, name) or 100
                yield f"{name.partition('_')[0]}{share:g}", share, replace(self.data, **{name: of * share / 100})


COMPARABLE = tuple(name for name, model in MODELS.items() if model.layers != 1 and not model.tied)
"""Models with several layers, each of which has parameters of its own."""


@dataclass(frozen=True)
class Gradients(Options):
    """Study of a GRU and an LRU of many layers: the norms of their gradients by layer."""

    models: tuple[str, ...] = ("gru", "lru")
    """lru, rg-lru, ps-lru, gru, lstm, grid-lstm or rhn-2-layers: models with several layers that share no parameters"""
    initialization: tuple[str, ...] = (START, "glorot")
    """initializations, each for all models: lru, as in the paper's code, or glorot, as in its text"""
    layers: int = 10
    """layers of each network, at least 2 (rhn-2-layers has two)"""
    patience: int | None = None
    """end training after this many epochs in a row without a new lowest validation loss (None: never)"""
    seeds: int = 1
    """number of networks for each model; norms are averaged over them"""
    workdir: Path = Path("runs/lattice/gradients")
    """directory of the runs, the summary and the plot"""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.models:
            if name not in COMPARABLE:
                raise UsageError(
                    f"models is '{name}', which has one layer or ties its layers, and the norms of several layers are compared: "
                    f"choose from {', '.join(COMPARABLE)}"
                )
        if self.layers < 2:
            raise UsageError(f"layers is {self.layers}: expected 2 or more, between which gradients differ")


def identify(options: Options, job: Job) -> Row:
    """Return the model of a run, its initialization, its share of the data and its seed, as its row has them."""
    model: Any = job.config.model
    return {
        "model": name_of(model),
        "initialization": model.initial.kind,
        "share": options.share(job.config.data),
        **{name: getattr(model, name) for name in ("cell", "size", "layers", "depth")},
        "seed": job.seed,
    }


def keep(options: Options, job: Job, result: Mapping[str, Any]) -> Row:
    """Return the row of a run: its model, its metrics on the test split at the best validation loss, the epoch of that loss, and curves."""
    epoch = job.config.train.evaluate_every
    lines = RunDirectory(job.path).metrics()
    return {
        **identify(options, job),
        "parameters": result["parameters"]["true"],
        "loss": result["metrics"]["test"]["loss"],
        "bits_per_character": result["metrics"]["test"]["bits_per_character"],
        "valid_loss": result["metrics"]["valid"]["loss"],
        "epochs_to_best": result["best_update"] // epoch,
        "epochs": result["updates"] // epoch,
        "updates": result["updates"],
        "seconds": result["seconds"],
        "losses": (losses := curves_of(lines)),
        **({"loss_after_one_epoch": losses["test"][0]} if losses["test"] else {}),
        **({"gradient_norms": layer_norms_by_epoch(lines).tolist()} if isinstance(options, Gradients) else {}),
    }


def by_model(finished: Sequence[Finished]) -> dict[str, list[Row]]:
    """Group the runs by the name of their model in tables, with its start if there are several."""
    rows = [one.row for one in finished]
    several = len({row["initialization"] for row in rows}) > 1
    return grouped([{**row, "title": NAMES[row["model"]] + several * f", {row['initialization']} start"} for row in rows], "title")


def at_cap(run: Mapping[str, Any], epochs: int, patience: int | None) -> bool:
    """Return whether the last epoch allowed ended a run before its patience did, so that more epochs might be better."""
    return run["epochs"] >= epochs and epochs - run["epochs_to_best"] < (patience or 1)


def show_convergence(options: Options, finished: Sequence[Finished], console: Console) -> Mapping[str, Any]:
    """Print a row for each model and the significant differences from the LRU. Draw learning curves and the box plot."""
    groups = by_model(finished)
    rows = [
        [name, f"{runs[0]['parameters']:,}", str(len(runs)), *_spread(runs, "loss"), *_bounded(options, runs)]
        for name, runs in groups.items()
    ]
    columns = ["model", "parameters", "seeds", "test nats per character", "deviation", "epochs until the best", "deviation"]
    console.table(columns, rows, _title(options))
    said = rankings([one.row for one in finished])
    for sentence in said:
        console.say(sentence)
    figures = options.workdir / "figures"
    epochs_figure(_epochs(groups), figures / "epochs.png", _title(options))
    for start, own in grouped([one.row for one in finished], "initialization").items():
        curves = {NAMES[name]: [run["losses"] for run in runs] for name, runs in grouped(own, "model").items()}
        losses_figure(curves, figures / f"losses_{start}.png", f"{_title(options)}, start {start}")
    return {"rankings": said}


def rankings(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each start: which models the LRU's test loss differs from, by paired seeds."""
    sentences = []
    for start, own in grouped(rows, "initialization").items():
        scores = {name: {run["seed"]: run["loss"] for run in runs} for name, runs in grouped(own, "model").items()}
        if said := ranked(scores):
            sentences.append(f"test loss, start {start}: {said}")
    return sentences


def _bounded(options: Options, runs: Sequence[Row]) -> list[str]:
    """Return mean and deviation of epochs until the best; at least as many if the cap ended a run."""
    mean, deviation = _spread(runs, "epochs_to_best", "{:.1f}")
    return [(">= " if any(at_cap(run, options.epochs, options.patience) for run in runs) else "") + mean, deviation]


def _spread(runs: Sequence[Row], name: str, form: str = "{:.3f}") -> list[str]:
    return mean_and_deviation([run[name] for run in runs], form)


def _epochs(groups: Mapping[str, Sequence[Row]]) -> dict[str, list[float]]:
    return {name: [float(run["epochs_to_best"]) for run in runs] for name, runs in groups.items()}


def show_efficiency(options: Efficiency, finished: Sequence[Finished], console: Console) -> Mapping[str, Any]:
    """Print a row for each model with a column for each share. Plot the losses, and the box plot over all shares."""
    groups = {name: by_share(runs) for name, runs in by_model(finished).items()}
    shares = sorted(options.shares)
    rows = [
        [name, *(f"{np.mean(of_share[share]):.3f}" if share in of_share else "" for share in shares)] for name, of_share in groups.items()
    ]
    console.table(["model", *(f"{share:g} %" for share in shares)], rows, f"test nats per character, {options.test} test split")
    figures = options.workdir / "figures"
    title = f"{_title(options)}, {options.test} test split"
    efficiency_figure(groups, figures / f"efficiency_{options.test}.png", title, "test nats per character")
    epochs_figure(_epochs(by_model(finished)), figures / f"epochs_{options.test}_shares.png", f"{title}, all shares")
    return {}


def by_share(runs: Sequence[Row]) -> dict[float, list[float]]:
    """Group test losses by per cent of the data."""
    return {share: [run["loss"] for run in own] for share, own in grouped(runs, "share").items()}


def show_gradients(options: Gradients, finished: Sequence[Finished], console: Console) -> Mapping[str, Any]:
    """Print the ratio of last to first layer by epoch, and draw the heat maps with the ratios."""
    norms = {name: mean_norms([run["gradient_norms"] for run in runs]) for name, runs in by_model(finished).items()}
    longest = max(found.shape[1] for found in norms.values())
    rows = [[name, *(f"{ratio:.3g}" for ratio in top_to_bottom(found))] for name, found in norms.items()]
    rows = [row + [""] * (1 + longest - len(row)) for row in rows]
    console.table(["model", *(f"epoch {k}" for k in range(1, longest + 1))], rows, "norm of gradients, last layer over first layer")
    layer_gradients_figure(norms, options.workdir / "figures" / "gradients.png")
    return {}


def _title(options: Options) -> str:
    seeds = f"{options.seeds} seed{'s' if options.seeds > 1 else ''}"
    return f"about {options.parameters:,} parameters, {options.layers} layers, {seeds}"


def study(name: str, show: Callable[[Any, Sequence[Finished], Console], Mapping[str, Any]]) -> StudyCommand[Any]:
    """Return the study of this name, whose summary is `<name>.json`."""
    return StudyCommand(
        experiment="lattice",
        preset=lambda options: "custom",
        summary=f"{name}.json",
        rows="runs",
        together=lambda options: (options.seeds * len(options.initialization), options.batch_size),
        jobs=lambda options: options.jobs(),
        keep=keep,
        show=show,
        head={"study": name},
        identify=identify,
    )


def _subcommand(name: str, kind: type[Options], show: Callable[[Any, Sequence[Finished], Console], Mapping[str, Any]]) -> Subcommand:
    found = study(name, show)
    return Subcommand(kind, found.run, kind(), kind.__doc__ or "", study=found)


STUDIES: Mapping[str, Subcommand] = {
    "convergence": _subcommand("convergence", Convergence, show_convergence),
    "efficiency": _subcommand("efficiency", Efficiency, show_efficiency),
    "gradients": _subcommand("gradients", Gradients, show_gradients),
}
