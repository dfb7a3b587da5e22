"""Comparison of cells and parametrizations at equal parameters or equal time, on three tasks, at each pair's own learning rate.

    python -m experiments.fair_crossing                                        equal parameters, three tasks, three seeds
    python -m experiments.fair_crossing --equal time                           equal time per update, measured on this machine
    python -m experiments.fair_crossing --tasks copy --cells gru --matrices dense monarch --updates 5000

All recurrent matrices of a network are stored in one way, with about `--share` of the parameters of dense ones. Input matrices and readout
are dense. With `--equal parameters`, the width is the one whose number of parameters is closest to `--budget`, of all widths. With `--equal
time`, it is one whose update takes as long as that of the first cell's dense matrices at that budget. While that is measured, the two
networks take turns.

Every pair of a cell and a parametrization first trains with one seed at the three middle ones of `--rates`, and at further ones while the
best rate lies at an end of those that were tried. The rate with the lowest validation loss trains with the other seeds. A rate at which any
seed diverges counts as the worst, and the next best one trains with all seeds. `sizes.json` in `--workdir` holds the widths that were
found, so that a resumed comparison measures nothing again. `fair_crossing.json` holds every run, and the differences from dense matrices
with their significance (`significance.py`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from experiments.fair_crossing.figure import score_figure
from experiments.fair_crossing.options import Options
from experiments.fair_crossing.pairs import FIRST, TunedPair, ended
from experiments.fair_crossing.problems import SCORES, Problem, problems
from experiments.fair_crossing.rows import by_pair, columns, row
from experiments.fair_crossing.significance import differences, overall, scores_of
from experiments.fair_crossing.sizes import Frame, Size, at_parameters, at_time, frame_of, widths_about
from experiments.fair_crossing.timing import Update, compiled, relative_time
from lrpt.cli.command import concluding, leaving_with_a_line
from lrpt.cli.flags import parse_dataclass
from lrpt.cli.studies import grouped, origin
from lrpt.devices import parallel
from lrpt.errors import UsageError
from lrpt.files import read_json
from lrpt.networks.sequence_model import ModelConfig
from lrpt.parametrizations import MatrixConfig
from lrpt.runs.console import Console, in_series
from lrpt.runs.files import write_json
from lrpt.runs.layout import FIGURES
from lrpt.training.loop import Job, fit_all

SUMMARY, SIZES = "fair_crossing.json", "sizes.json"
NAMES = {"experiment": "fair_crossing", "preset": "custom"}


def pairs(options: Options) -> list[TunedPair]:
    """Return all pairs, with the sizes in `sizes.json` or new ones, which are written there."""
    path, found = options.workdir / SIZES, []
    decides = {name: getattr(options, name) for name in ("equal", "budget", "share", "depth", "lag")} | {"data": str(options.data)}
    if options.equal == "time":
        decides["reference"] = options.cells[0]
    known: dict[str, Any] = _known(path, decides)
    for name in options.tasks:
        sizing = Sizing(options, problems(options.data, options.lag)[name])
        for cell in options.cells:
            for kind in options.matrices:
                key = f"{name}-{cell}-{kind}"
                if key not in known:
                    size = sizing.size(cell, kind)
                    known[key] = {**size._asdict(), "storage": asdict(size.storage)}
                    write_json(path, {"options": decides, "sizes": known})
                size = _size_of(known[key])
                found.append(TunedPair(options, name, sizing.problem, sizing.frame(cell).sized(size), size))
    return found


def _known(path: Path, decides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sizes of an earlier call.

    Raises:
      UsageError: it had other options, or the file is damaged.
    """
    if not path.exists():
        return {}
    try:
        content = read_json(path)
        before, sizes = content["options"], dict(content["sizes"])
        for size in sizes.values():
            _size_of(size)
    except (ValueError, LookupError, TypeError):
        raise UsageError(f"{path} is damaged: remove it, and widths are found again", code=1) from None
    if before != json.loads(json.dumps(decides)):
        raise UsageError(f"{path} holds sizes for other options ({before}): name another --workdir")
    return sizes


def _size_of(stored: Mapping[str, Any]) -> Size:
    """Return a size from `sizes.json`."""
    return Size(**{**stored, "storage": MatrixConfig(**stored["storage"])})


class Sizing:
    """Search for the sizes of networks on one task."""

    def __init__(self, options: Options, problem: Problem) -> None:
        self.options, self.problem = options, problem
        self.task = problem.data.build(options.seed)

    def frame(self, cell: str) -> Frame:
        """Return what all networks of a cell have in common."""
        initial, share = self.problem.initial, self.options.share
        return frame_of(cell, initial, self.task.input_size, self.task.output_size, self.options.depth, share)

    def size(self, cell: str, kind: str) -> Size:
        """Return the size of a network at equal parameters, or at equal time."""
        size = at_parameters(self.frame(cell), kind, self.options.budget)
        if self.options.equal == "parameters":
            return size
        if (cell, kind) == (self.options.cells[0], "dense"):
            return size._replace(time=1.0)
        return at_time(self.frame(cell), kind, list(widths_about(size.width)), self._relative_time)

    def _relative_time(self, model: ModelConfig) -> float:
        return relative_time(self.update(model), self.reference)

    @cached_property
    def reference(self) -> Update:
        """Compile an update of the dense network of the first cell, at equal parameters."""
        frame = self.frame(self.options.cells[0])
        return self.update(frame.sized(at_parameters(frame, "dense", self.options.budget)))

    def update(self, model: ModelConfig) -> Update:
        """Compile an update of a network."""
        return compiled(self.problem.config(model, min(self.options.rates), self.options.updates, 1), self.task)


def run(options: Options, console: Console) -> None:
    """Train what is not finished: first the learning rates, then the other seeds. Conclude even after an interruption."""
    batch_size = min(problem.train.batch_size for problem in problems(options.data, options.lag).values())
    parallel.request_devices(options.devices, max(options.seeds, FIRST), batch_size)
    found = pairs(options)
    with concluding(partial(conclude, options, found, console), console):
        while jobs := [job for pair in found for job in pair.missing()]:
            _train(jobs, options, console)
    name_lost(found, console)


def name_lost(found: Sequence[TunedPair], console: Console) -> None:
    """Warn of pairs that are in no table, as they diverged at all learning rates.

    Raises:
      UsageError: all pairs are.
    """
    lost = ["-".join(pair.names.values()) for pair in found if pair.rate() is None]
    said = f"{in_series(lost)} diverged at all learning rates that were tried: add lower ones to --rates"
    if len(lost) == len(found):
        raise UsageError(said, code=1)
    if lost:
        console.warn(said)


def _train(jobs: Sequence[Job], options: Options, console: Console) -> None:
    """Train runs. A run that diverges is named on the console, and does not stop the comparison."""
    try:
        fit_all(jobs, names=NAMES, devices=options.devices, console=console)
    except UsageError as error:
        if not all(map(ended, jobs)):
            raise
        console.warn(str(error))


def conclude(options: Options, found: Sequence[TunedPair], console: Console) -> None:
    """Print a table for each task, draw its plot, and write the summary."""
    runs = [run for pair in found for run in pair.rows()]
    if not runs:
        return
    said: dict[str, Any] = {}
    for task, of_task in grouped(runs, "task").items():
        score = SCORES[task]
        scores = scores_of(of_task)
        said[task] = [difference._asdict() for difference in [*differences(scores, score), *overall(scores, score)]]
        title = f"{task}: equal {options.equal}, {options.updates:,} updates, {options.seeds} seeds"
        score_figure(of_task, options.workdir / FIGURES / f"{task}.png", score, title, options.equal)
        table = [[*row(own), *_compared(pair, said[task])] for pair, own in by_pair(of_task).items()]
        console.table([*columns(of_task, score), "over dense", "p"], table, title)
    path = options.workdir / SUMMARY
    write_json(path, {**origin(options, found[0].search()[0]), "runs": runs, "differences": said})
    console.say(f"{len(runs)} runs   summary: {path}   figures: {options.workdir / 'figures'}")


def _compared(pair: tuple[str, str], said: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the ratio of a pair's error to that of dense matrices, and its p-value."""
    own = next((one for one in said if (one["cell"], one["parametrization"]) == pair), None)
    if own is None:
        return ["", ""]
    return [f"{own['ratio']:.3f}" + (" *" if own["significant"] else ""), "" if own["p"] is None else f"{own['p']:.3f}"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison from a command line. Map errors to one line and an exit status."""
    console = Console()
    with leaving_with_a_line(console):
        about = "Compare cells and parametrizations at equal parameters or equal time, on three tasks."
        run(parse_dataclass(Options, arguments, "python -m experiments.fair_crossing", about, Options()), console)
