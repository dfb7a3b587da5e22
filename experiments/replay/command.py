"""Training runs of 2016, repeated from the same initial parameters and with the same batches, beside their published logs.

    python -m experiments.replay                                                     the runs on copying, which need no data
    python -m experiments.replay permuted_mnist --data.dir DIR                       the LR-GRU 128/24 of Table 1 of Miceli Barone 2018
    python -m experiments.replay permuted_mnist --data.dir DIR --updates 5000 --json
    python -m experiments.replay permuted_mnist --start permuted_mnist_2016.npz      its initial parameters

The last command is for the whole run, with evaluations and checkpoints:

    python -m experiments.permuted_mnist --preset original --train.start permuted_mnist_2016.npz --data.dir DIR

The author of lowrank-gru published the logs of some of his runs. His code draws parameters and sequences with NumPy's generator from fixed
seeds, so that a run can be repeated batch by batch. The network, the loss, the gradient and the optimizer are those of this library. Two
programs that compute the same function differ by rounding alone, until training amplifies it.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import tyro
from jaxtyping import Float

from experiments.replay.logs import LOGS, PublishedLog
from experiments.replay.starts import original_start
from experiments.replay.training import losses
from lrpt.cli.command import leaving_with_a_line
from lrpt.cli.flags import parse_dataclass
from lrpt.errors import UsageError, check_at_least, check_choice
from lrpt.runs.console import Console
from lrpt.runs.named_arrays import save_arrays

PROGRAM = "python -m experiments.replay"
WITHOUT_DATA = ("variable_length", "fixed_lag")
CLOSE = 1e-5
"""nats; printed losses are rounded at 1e-11, and float32 at 2e-7"""


@dataclass(frozen=True)
class DataOptions:
    """Directory of the data."""

    dir: Path | None = None
    """directory of the MNIST files (None: the user's cache)"""


@dataclass(frozen=True)
class Options:
    """Command-line options of the replay."""

    runs: tyro.conf.Positional[tuple[str, ...]] = WITHOUT_DATA
    """variable_length, fixed_lag or permuted_mnist"""
    updates: int = 300
    """updates of each run, at most those of the log that are stored here"""
    start: Path | None = None
    """npz file for the initial parameters of one run, for --train.start of an experiment; nothing is trained"""
    json: bool = False
    """print a JSON list of objects instead of tables"""
    data: DataOptions = field(default_factory=DataOptions)

    def __post_init__(self) -> None:
        for name in self.runs:
            check_choice("runs", name, LOGS)
        if self.start is not None and len(self.runs) != 1:
            raise UsageError(f"start is {self.start}, which holds the parameters of one run: name one of {', '.join(LOGS)}")
        check_at_least(1, self, "updates")


@dataclass(frozen=True)
class Comparison:
    """Training losses of a run beside those of its log.

    Attributes:
      run: its name.
      log: the published file.
      about: what was trained.
      updates: number of compared updates.
      largest: largest absolute difference, in nats.
      close: number of updates before the first difference above `CLOSE`.
    """

    run: str
    log: str
    about: str
    updates: int
    largest: float
    close: int


def compared(log: PublishedLog, ours: Float[np.ndarray, " updates"]) -> Comparison:
    """Compare losses with those of a log."""
    apart = np.abs(ours - log.losses[: len(ours)])
    far = np.flatnonzero(~(apart <= CLOSE))
    return Comparison(log.name, log.file, log.about, len(ours), float(apart.max()), int(far[0]) if far.size else len(ours))


def show(found: Comparison, log: PublishedLog, ours: Float[np.ndarray, " updates"], console: Console) -> None:
    """Print some losses, and how far the two runs agree."""
    shown = sorted({update for update in (0, 1, 2, 5, 10, 30, 100, 300, 1_000, 3_000, 10_000) if update < len(ours)} | {len(ours) - 1})
    rows = [[f"{i:,}", f"{log.losses[i]:.7f}", f"{ours[i]:.7f}", f"{ours[i] - log.losses[i]:+.1e}"] for i in shown]
    console.say(f"{found.run}: {found.about} ({found.log})")
    console.table(["update", "published", "here", "difference"], rows)
    console.say(f"largest difference of the training losses of {found.updates:,} updates: {found.largest:.1e} nats")
    console.say(f"updates before the first difference above {CLOSE:.0e} nats: {found.close:,}\n")


def _write_start(log: PublishedLog, path: Path, console: Console) -> None:
    save_arrays(path, original_start(log.config, *log.widths), "--start")
    console.say(f"initial parameters of {log.name}: {path}")


def _replay(logs: Sequence[PublishedLog], options: Options, console: Console) -> None:
    for log in logs:
        if options.updates > log.losses.size:
            raise UsageError(f"updates is {options.updates}, and {log.losses.size:,} losses of {log.name} are stored: choose fewer")
    found = []
    for log in logs:
        ours = losses(log, options.updates, options.data.dir)
        found.append(compared(log, ours))
        if not options.json:
            show(found[-1], log, ours, console)
    if options.json:
        print(json.dumps([asdict(one) for one in found], indent=2))


def main(arguments: Sequence[str] | None = None) -> None:
    """Replay runs, or write the initial parameters of one. Map errors to one line and an exit status."""
    console = Console()
    with leaving_with_a_line(console):
        options = parse_dataclass(Options, arguments, PROGRAM, (__doc__ or "").partition("\n")[0], Options())
        logs = [LOGS[name] for name in dict.fromkeys(options.runs)]
        if options.start is not None:
            _write_start(logs[0], options.start, console)
        else:
            _replay(logs, options, console)
