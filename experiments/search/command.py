"""Hyperparameter search by successive halving: all trials for few updates, the best third for three times as many, and so on.

    python -m experiments.search adding --over optim.learning-rate=1e-4..1e-2 model.rank=8,24 --runs 20
    python -m experiments.search char_lm --over model.size=64..512 --runs 30 --keep 2 --workdir DIR --engine ray --address HEAD:6379

Trial k has the run directory DIR/trial-k. A trial that stays in resumes there from its checkpoint, with the numbers of an uninterrupted
run. The best trial is an ordinary run that every other command reads. The same command resumes a search that was interrupted.

The schedule is plain successive halving over the engine of `experiments.sweep`, not Optuna or Ray Tune. Each of these has its own store of
trials, its own checkpoints and its own processes; here run directories are all three, on both engines, and the schedule takes twenty lines.
Models of which trial comes next, as in Optuna, would gain little at tens of trials that start together.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.search.figure import NAMED, draw_search
from experiments.search.halving import best_line, ranked, rungs
from experiments.search.space import Trial, draw, read
from experiments.sweep import experiment_named, refuse_distributed, split
from lrpt.analysis.curves import Curve
from lrpt.cli.command import leaving_with_a_line
from lrpt.cli.experiment import Experiment
from lrpt.cli.flags import Command, check_seeds, command_line, flag_in, given, parse, parse_dataclass
from lrpt.cli.limits import check_runs, check_sizes
from lrpt.cli.unused import group_by_numbers
from lrpt.engines.engine import EngineOptions
from lrpt.engines.jobs import NamedJob
from lrpt.engines.schedule import train_all
from lrpt.errors import UsageError, check_at_least
from lrpt.runs.console import Console
from lrpt.runs.files import write_json
from lrpt.runs.layout import FIGURES
from lrpt.runs.run_directory import RunDirectory
from lrpt.training.loop import Job
from lrpt.training.setup import Setup

PROGRAM = "python -m experiments.search"
WORDS = "EXPERIMENT --over FLAG=LOW..HIGH FLAG=VALUE,VALUE [FLAGS OF THE EXPERIMENT]"
ABOUT = "Search hyperparameters by successive halving."


REFUSED = {
    "--seeds": "all trials have one seed, --seed; repeat the search with another one",
    "--vary": "name what to search with --over",
}
"""Flags of experiments that a search does not use -> what to do instead."""


@dataclass(frozen=True)
class Options(EngineOptions):
    """Flags of the search. All other flags are passed to the experiment."""

    over: tuple[str, ...] = ()
    """FLAG=LOW..HIGH (log-uniform above 0) or FLAG=VALUE,VALUE: what to search"""
    runs: int = 20
    """largest number of trials in the first round; a trial that would repeat another one is left out"""
    keep: int = 3
    """reduction factor k: each round keeps one trial in k, and trains it k times as long"""
    seed: int = 0
    """seed of the draws and of all trials"""
    workdir: Path | None = None
    """directory of the trials, on a disk that all nodes share (None: runs/<experiment>-search)"""
    huge: bool = False
    """go on even if estimates of runs, parameters or bytes exceed the limits"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, self, "runs")
        check_at_least(2, self, "keep")
        check_seeds(self.seed)


class Search:
    """One search: its trials, and their metrics.

    Args:
      experiment: the experiment to train.
      options: flags of the search.
      flags: flags of the experiment.
    """

    def __init__(self, experiment: Experiment[Any], options: Options, flags: Sequence[str]) -> None:
        if not options.over:
            raise UsageError("over is empty: name what to search, as in --over optim.learning-rate=1e-4..1e-2 model.rank=8,24")
        for word in flags:
            if (flag := flag_in(word)) in REFUSED:
                raise UsageError(f"{flag} is no flag of a search: {REFUSED[flag]}")
        check_runs(options.runs, options.huge)
        space = [read(word) for word in options.over]
        if len({one.flag for one in space}) < len(space):
            raise UsageError("over names a flag twice: give each once")
        self.experiment, self.options = experiment, options
        self.root = options.workdir or Path("runs") / f"{experiment.name}-search"
        drawn = draw(space, options.runs, options.seed)
        found = self._distinct(drawn, flags)
        self.trials, self.commands = [trial for trial, _ in found], [command for _, command in found]
        self.repeated = len(drawn) - len(found)
        train = self.commands[0].train
        self.rungs = rungs(len(self.trials), train.updates, train.evaluate_every, options.keep)

    def _distinct(self, trials: Sequence[Trial], flags: Sequence[str]) -> list[tuple[Trial, Command[Any, Any]]]:
        """Return trials and commands, without those that differ from an earlier trial only in settings that have no effect."""
        commands = [self._command(trial, flags) for trial in trials]
        jobs = [Job(command.config, self.options.seed, self.root / str(number)) for number, command in enumerate(commands)]
        drawn = dict(zip(jobs, zip(trials, commands, strict=True), strict=True))
        return [drawn[job] for job in group_by_numbers(jobs)]

    def _command(self, trial: Trial, flags: Sequence[str]) -> Command[Any, Any]:
        """Parse the flags that all trials share, and the values of one trial.

        Raises:
          UsageError: they are wrong, alone or together.
        """
        own = [word for flag, value in trial.items() for word in given(flag, value)]
        try:
            command = parse(self.experiment, [*flags, "--no-compare", "--seed", str(self.options.seed), *own])
            refuse_distributed(command)
            check_sizes([command.config], self.options.huge)
        except UsageError as error:
            raise UsageError(f"{error} (in the trial with {label(trial)})", error.code) from None
        return command

    def run(self, console: Console) -> tuple[list[int], int]:
        """Train the trials in rounds, each with the best trials of the round before. Trials that failed or diverged are left out.

        Returns:
          The numbers of all trials, and how many of them neither failed nor diverged. The best trial comes first. Trials that were trained
          for longer come before those that were dropped earlier, and trials that failed or diverged come last.
        """
        if self.repeated:
            console.say(f"{self.repeated} of {self.repeated + len(self.trials)} trials would repeat others, and are not trained")
        order, out = list(range(len(self.trials))), list[int]()
        for rung in self.rungs:
            going = order[: rung.trials]
            if not going:
                break
            console.say(f"{len(going)} {'trial' if len(going) == 1 else 'trials'} up to update {rung.updates:,}")
            report = train_all([self._job(trial, rung.updates) for trial in going], self.options, console, self.commands[0].devices)
            for path, reason in report.failed.items():
                console.warn(f"{path.name} is out: {reason}")
            losses = {trial: self._loss(trial, rung.updates) for trial in going}
            losses |= {trial: float("inf") for trial in going if self.path(trial) in report.failed}
            out = [trial for trial in going if not math.isfinite(losses[trial])] + out
            order = [trial for trial in ranked(losses) if trial not in out] + order[len(going) :]
        return order + out, len(order)

    def path(self, trial: int) -> Path:
        """Return the run directory of a trial."""
        return self.root / f"trial-{trial:03d}"

    def _job(self, trial: int, updates: int) -> NamedJob:
        command = self.commands[trial]
        config = dataclasses.replace(command.config, train=dataclasses.replace(command.train, updates=updates))
        names = {"experiment": self.experiment.name, "preset": command.preset}
        return NamedJob(Job(config, self.options.seed, self.path(trial)), names)

    def _loss(self, trial: int, until: int) -> float:
        """Return the lowest validation loss of a trial up to an update; infinity if it was not evaluated."""
        found = best_line(self.evaluations(trial), until, self.counts(trial))
        return math.inf if found is None else found["loss"]

    def counts(self, trial: int) -> Callable[[int], bool]:
        """Return which evaluations of a trial count: all, unless its network starts with other settings than it ends with."""
        config = self.commands[trial].config
        if config.model.settled(0, 1):
            return lambda update: True
        return Setup({}, config, self.options.seed, self.path(trial)).selection.counts

    def evaluations(self, trial: int) -> list[dict[str, Any]]:
        """Return the validation metrics of a trial."""
        return [line for line in RunDirectory(self.path(trial)).metrics() if line["split"] == "valid"]


def label(trial: Trial) -> str:
    """Return the values of a trial as text: 'learning-rate 0.0031, rank 8'."""
    return ", ".join(f"{flag.partition('.')[2]} {value}" for flag, value in trial.items())


def tell(search: Search, order: Sequence[int], left: int, console: Console) -> None:
    """Print the table, write search.json, and draw the learning curves.

    Raises:
      UsageError: every trial has failed or diverged. Everything else was written.
    """
    score, rows, kept, curves = search.experiment.score_of(search.commands[0].preset), [], [], []
    for trial in order:
        lines = search.evaluations(trial)
        best = best_line(lines, math.inf, search.counts(trial))
        if best is None:
            continue
        figures = {"updates": lines[-1]["update"], "loss": best["loss"], score: best[score]}
        values = [f"{figures['updates']:,}", *(f"{figures[name]:.5g}" for name in dict.fromkeys(("loss", score)))]
        rows.append([search.path(trial).name, *search.trials[trial].values(), *values])
        kept.append({"trial": search.path(trial).name, **search.trials[trial], **figures})
        curves.append(Curve(label(search.trials[trial]), [line["update"] for line in lines], [line[score] for line in lines]))
    if not rows:
        raise UsageError("no trial was ever evaluated: see the warnings above", code=1)
    columns = ["trial", *search.trials[0], "updates", *(f"valid {name}" for name in dict.fromkeys(("loss", score)))]
    console.table(columns, rows, f"{search.experiment.name}: {len(rows)} trials, the best first")
    write_json(search.root / "search.json", {"over": search.options.over, "rungs": search.rungs, "trials": kept})
    title = f"{search.experiment.name}: {len(rows)} trials, the best {min(NAMED, len(rows))} by name"
    figure = draw_search(curves, score, search.root / FIGURES / "search.png", title)
    if not left:
        raise UsageError(f"all {len(order)} trials failed or diverged, so none is the best: choose other values for --over", code=1)
    console.say(f"best: {search.path(order[0])}   table: {search.root / 'search.json'}   figure: {figure}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and search."""
    console = Console()
    with leaving_with_a_line(console):
        names, ours, others = split(command_line(arguments), Options)
        options = parse_dataclass(Options, ours, PROGRAM, ABOUT, Options(), WORDS)
        if len(names) != 1:
            raise UsageError(f"one experiment is searched, and {len(names)} are named: `python -m experiments` lists them")
        search = Search(experiment_named(names[0]), options, others)
        tell(search, *search.run(console), console)
