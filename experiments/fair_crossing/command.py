"""Comparison of cells and parametrizations at equal parameters or equal time, on three tasks, at each pair's own learning rate.

    python -m experiments.fair_crossing                                        equal parameters, three tasks, three seeds
    python -m experiments.fair_crossing --equal time                           equal time per update, measured on this machine
    python -m experiments.fair_crossing --tasks copy --cells gru --matrices dense monarch --updates 5000

All recurrent matrices of a network are stored in one way, with about `--share` of the parameters of full ones. Inputs, biases and readout
are full. With `--equal parameters`, the width is the one whose number of parameters is closest to `--budget`, of all widths. With `--equal
time`, it is the one whose update takes as long as that of the first cell's full matrices at that budget.

Every pair of a cell and a parametrization first trains with one seed at the three middle ones of `--rates`, and at further ones while the
best rate lies at an end of those that were tried. The rate with the lowest validation loss trains with the other seeds. A run that diverges
counts as the worst. `sizes.json` in `--workdir` holds the widths that were found, so that a resumed comparison measures nothing again.
`fair_crossing.json` holds every run, and the differences from full matrices with their significance (`significance.py`).
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from experiments.fair_crossing.figure import score_figure
from experiments.fair_crossing.options import Options
from experiments.fair_crossing.pairs import FIRST, Pair, ended
from experiments.fair_crossing.problems import SCORES, Problem, problems
from experiments.fair_crossing.significance import differences, overall, scores_of
from experiments.fair_crossing.sizes import Size, at_parameters, at_time, frame_of, widths_about
from experiments.fair_crossing.timing import seconds_per_update
from lrpt.cli.command import concluding, leaving_with_a_line
from lrpt.cli.flags import parse_dataclass
from lrpt.cli.studies import grouped, origin
from lrpt.cli.summary import mean_and_deviation
from lrpt.devices import parallel
from lrpt.errors import UsageError
from lrpt.networks.sequence_model import ModelConfig
from lrpt.parametrizations import MatrixConfig
from lrpt.runs.console import Console
from lrpt.runs.files import write_json
from lrpt.tasks.task import Task
from lrpt.training.loop import Job, fit_all

SUMMARY, SIZES = "fair_crossing.json", "sizes.json"
NAMES = {"experiment": "fair_crossing", "preset": "custom"}


def pairs(options: Options) -> list[Pair]:
    """Return all pairs, with the sizes in `sizes.json` or new ones, which are written there."""
    path, found = options.workdir / SIZES, []
    decides = {name: getattr(options, name) for name in ("equal", "budget", "share", "depth", "lag")} | {"data": str(options.data)}
    known: dict[str, Any] = _known(path, decides)
    for name in options.tasks:
        problem = problems(options.data, options.lag)[name]
        task = problem.data.build(options.seed)
        for cell in options.cells:
            for kind in options.matrices:
                key = f"{name}-{cell}-{kind}"
                frame = frame_of(cell, problem.initial, task.input_size, task.output_size, options.depth, options.share)
                if key not in known:
                    size = _size(options, problem, task, cell, kind, known)
                    known[key] = {"width": size.width, "storage": asdict(size.storage), "parameters": size.parameters}
                    write_json(path, {"options": decides, "sizes": known})
                size = Size(known[key]["width"], MatrixConfig(**known[key]["storage"]), known[key]["parameters"])
                found.append(Pair(options, name, problem, frame.sized(size), size.parameters))
    return found


def _known(path: Path, decides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sizes of an earlier call.

    Raises:
      UsageError: it had other options.
    """
    if not path.exists():
        return {}
    content = json.loads(path.read_text())
    if content["options"] != json.loads(json.dumps(decides)):
        raise UsageError(f"{path} holds sizes for other options ({content['options']}): name another --workdir")
    return content["sizes"]


def _size(options: Options, problem: Problem, task: Task, cell: str, kind: str, known: dict[str, Any]) -> Size:
    """Find the size of a network. The time of the reference is measured once for each task, and kept with the sizes."""

    def frame(cell: str) -> Any:
        return frame_of(cell, problem.initial, task.input_size, task.output_size, options.depth, options.share)

    size = at_parameters(frame(cell), kind, options.budget)
    if options.equal == "parameters":
        return size

    def measure(model: ModelConfig) -> float:
        return seconds_per_update(problem.config(model, min(options.rates), options.updates, 1), task)

    key = f"reference {type(problem.data).__name__}"
    if key not in known:
        reference = at_parameters(frame(options.cells[0]), "dense", options.budget)
        known[key] = {"seconds": measure(frame(options.cells[0]).sized(reference))}
    return at_time(frame(cell), kind, known[key]["seconds"], list(widths_about(size.width)), measure)


def run(options: Options, console: Console) -> None:
    """Train what is not finished: first the learning rates, then the other seeds. Conclude even after an interruption."""
    parallel.request_devices(options.devices, max(options.seeds, FIRST), 20)
    found = pairs(options)
    with concluding(partial(conclude, options, found, console)):
        while jobs := [job for pair in found for job in pair.search() if not ended(job)]:
            _train(jobs, options, console)
        _train([job for pair in found for job in pair.chosen() if not ended(job)], options, console)


def _train(jobs: Sequence[Job], options: Options, console: Console) -> None:
    """Train runs. One that diverges is told of, and does not stop the comparison."""
    try:
        fit_all(jobs, names=NAMES, devices=options.devices, console=console)
    except UsageError as error:
        if not all(map(ended, jobs)):
            raise
        console.warn(str(error))


def conclude(options: Options, found: Sequence[Pair], console: Console) -> None:
    """Print a table for each task, draw its plot, and write the summary."""
    rows = [row for pair in found for row in pair.rows()]
    if not rows:
        return
    said: dict[str, Any] = {}
    for task, of_task in grouped(rows, "task").items():
        score = SCORES[task]
        scores = scores_of(of_task)
        said[task] = [difference._asdict() for difference in [*differences(scores, score), *overall(scores, score)]]
        title = f"{task}: equal {options.equal}, {options.updates:,} updates, {options.seeds} seeds"
        score_figure(of_task, options.workdir / "figures" / f"{task}.png", score, title, options.equal)
        columns = ["cell", "matrices", "width", "parameters", "rate", f"test {score.replace('_', ' ')}", "deviation", "over dense", "p"]
        table = [_row(own, said[task]) for kinds in grouped(of_task, "cell", "parametrization").values() for own in kinds.values()]
        console.table(columns, table, title)
    path = options.workdir / SUMMARY
    write_json(path, {**origin(options, found[0].search()[0]), "runs": rows, "differences": said})
    console.say(f"{len(rows)} runs   summary: {path}   figures: {options.workdir / 'figures'}")


def _row(runs: Sequence[dict[str, Any]], said: Sequence[Mapping[str, Any]]) -> list[str]:
    first = runs[0]
    names = [first["cell"], first["parametrization"].replace("_", " "), str(first["size"]), f"{first['parameters']:,}"]
    own = [one for one in said if (one["cell"], one["parametrization"]) == (first["cell"], first["parametrization"])]
    difference = (
        [f"{own[0]['ratio']:.3f}" + " *" * own[0]["significant"], "" if own[0]["p"] is None else f"{own[0]['p']:.3f}"] if own else ["", ""]
    )
    return [*names, f"{first['learning_rate']:g}", *mean_and_deviation([run["score"] for run in runs]), *difference]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison from a command line. Map errors to one line and an exit status."""
    console = Console()
    with leaving_with_a_line(console):
        words = sys.argv[1:] if arguments is None else arguments
        about = "Compare cells and parametrizations at equal parameters or equal time, on three tasks."
        run(parse_dataclass(Options, words, "python -m experiments.fair_crossing", about, Options()), console)
