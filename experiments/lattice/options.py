"""Options of the studies of the lattice paper, and the runs that follow from them."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Literal

from experiments.lattice.models import MODELS, PAPER, PUBLISHED, START, sized
from lrpt.cli.data_options import TextOptions
from lrpt.cli.flags import check_seeds
from lrpt.errors import UsageError, check_at_least, check_choice, check_distinct
from lrpt.parametrizations.initialization import INITIALIZATIONS
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
