"""Sweeps: every combination of experiments, presets and seeds, on all cores of this machine or on the nodes of a Ray cluster.

    python -m experiments.sweep copy_memory --presets paper-variable-length paper-variable-lag --seeds 5 --workdir DIR
    python -m experiments.sweep adding --seeds 3 --workdir DIR --train.updates 1000 --vary model.rank=8,24
    python -m experiments.sweep adding copy_memory --seeds 3 --engine ray --address HEAD:6379 --workdir DIR

Each run has the directory DIR/<preset>-seed<k> (DIR/<experiment>/... for several experiments) and a process of its own. If a process dies,
the run starts again from its checkpoint; if a node is lost, its runs go on at another node. If a run fails, it is named, and the others
go on. Equal runs are trained once. Finished runs are skipped, and so are runs that another command is training. On Ctrl-C all runs
write a checkpoint; the same command resumes them. The table shows each model with its best learning rate, or all with --all-rates.
`experiments.report --collect DIR` reads the finished and unfinished runs.

Exit status: 0 all runs are finished, 1 some have failed, 2 a flag is wrong, 128 + n on signal n.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import experiments
from lrpt.cli.command import leaving_with_a_line, planned
from lrpt.cli.experiment import Experiment
from lrpt.cli.flags import Command, combinations, command_line, parse_dataclass
from lrpt.cli.limits import check_runs, check_sizes
from lrpt.cli.summary import has_rates_to_choose, summarize
from lrpt.engines.engine import EngineOptions
from lrpt.engines.jobs import NamedJob
from lrpt.engines.schedule import Report, train_all
from lrpt.errors import UsageError, check_at_least, check_distinct
from lrpt.runs.console import Console
from lrpt.runs.imports import import_module
from lrpt.runs.run_directory import RunDirectory

PROGRAM = "python -m experiments.sweep"
WORDS = "EXPERIMENT [EXPERIMENT ...] [FLAGS OF THE EXPERIMENTS]"
ABOUT = "Train every combination of experiments, presets and seeds, and of values: --vary model.rank=8,24, a flag of the experiments."
DECIDED_HERE = ("--preset", "--seed", "--seeds", "--workdir")


@dataclass(frozen=True)
class Options(EngineOptions):
    """Options of the sweep; all other flags are passed to the experiments."""

    presets: tuple[str, ...] = ("quick",)
    """presets to train; their tables show the same metric"""
    seed: int = 0
    """first seed"""
    seeds: int = 1
    """number of seeds of each preset"""
    workdir: Path | None = None
    """directory of the run directories, on a disk that all nodes share (None: runs/<experiment>)"""
    all_rates: bool = False
    """list the runs of all learning rates in the table, not only those of the best one of each model"""
    huge: bool = False
    """go on even if estimates of runs, parameters or bytes exceed the limits"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_distinct("presets", self.presets)
        check_at_least(1, self, "seeds")


@dataclass(frozen=True)
class Part:
    """The runs of one experiment."""

    experiment: Experiment[Any]
    root: Path
    jobs: tuple[NamedJob, ...]
    devices: int | None
    score: str


def part_of(experiment: Experiment[Any], root: Path, options: Options, flags: Sequence[str]) -> Part:
    """Return every run of an experiment, ordered by seed, so that each configuration gets its first seed early."""
    jobs, devices = [], None
    taken = [word for word in flags if word.partition("=")[0] in DECIDED_HERE]
    if taken:
        raise UsageError(f"{taken[0]} is decided by the sweep: give --presets, --seed, --seeds and --workdir, before any --")
    for preset in options.presets:
        own = ["--preset", preset, "--seed", str(options.seed), "--seeds", str(options.seeds), "--workdir", str(root)]
        commands = combinations(experiment, [*flags, *own])
        first = next(iter(commands.values()))
        refuse_distributed(first)
        devices = first.devices
        names = {"experiment": experiment.name, "preset": preset}
        jobs += [NamedJob(job, names) for job in planned(experiment, commands, several=True)]
    check_sizes((one.job.config for one in jobs), options.huge)
    return Part(experiment, root, tuple(sorted(jobs, key=lambda one: one.job.seed)), devices, score_of(experiment, options.presets))


def score_of(experiment: Experiment[Any], presets: Sequence[str]) -> str:
    """Return the metric that the table of these presets shows.

    Raises:
      UsageError: their own tables show different metrics.
    """
    scores = {preset: experiment.score_of(preset) for preset in presets}
    if len(set(scores.values())) > 1:
        shown = ", ".join(f"{score} of {preset}" for preset, score in scores.items())
        raise UsageError(f"presets is {' '.join(presets)}, and tables of {experiment.name} show {shown}: sweep one metric at a time")
    return scores[presets[0]]


def sweep(named: Sequence[Experiment[Any]], options: Options, flags: Sequence[str], console: Console) -> int:
    """Train all runs of the experiments, and summarize the finished ones. Return the exit status."""
    flags = [*flags, "--huge"] if options.huge else flags
    check_runs(len(named) * len(options.presets) * options.seeds, options.huge)
    parts = [part_of(experiment, _root(experiment, options, len(named) > 1), options, flags) for experiment in named]
    report = train_all([one for part in parts for one in part.jobs], options, console, parts[0].devices)
    for part in parts:
        _summarize(part, report, options.all_rates, console)
    for path, reason in report.failed.items():
        console.error(f"{path.name} has failed: {reason}")
    return 1 if report.failed else 0


def _root(experiment: Experiment[Any], options: Options, several: bool) -> Path:
    """Return where the run directories of an experiment are."""
    if options.workdir is None:
        return Path("runs") / experiment.name
    return options.workdir / experiment.name if several else options.workdir


def _summarize(part: Part, report: Report, all_rates: bool, console: Console) -> None:
    """Print the table of the finished runs of an experiment, and draw their learning curves.

    Of several learning rates, each of several models is shown with the best one on the validation split, unless `all_rates` are wanted.
    """
    paths = [one.job.path for one in part.jobs if one in report.finished]
    results = [result for path in paths if (result := RunDirectory(path).result())]
    if results:
        title = f"{part.experiment.name}, {len(paths)} of {len(part.jobs)} runs"
        chooses = not all_rates and has_rates_to_choose(results)
        if chooses:
            console.say("each model with the learning rate that is best on the validation split (--all-rates lists all)")
        summarize(part.root, part.score, results, paths, title, console, chooses)


def refuse_distributed(command: Command[Any, Any]) -> None:
    """Check that a command does not join processes by itself.

    Raises:
      UsageError: it has flags of `--distributed`.
    """
    if command.distributed.wanted:
        raise UsageError("the engine joins the processes of a run: leave --distributed out, and give --engine ray --hosts N")


def experiment_named(name: str) -> Experiment[Any]:
    """Return the experiment of a module of `experiments` or of the user's. The latter is imported as by `--import`.

    Raises:
      UsageError: there is none, or the module cannot be imported.
    """
    ours = name in experiments.names()
    module = experiments.module(name) if ours else import_module(name) if _is_module(name) else None
    held = getattr(module, "EXPERIMENT", None)
    if not isinstance(held, Experiment):
        raise UsageError(f"'{name}' is no experiment: `python -m experiments` lists them; a module of yours needs an EXPERIMENT")
    return held


def _is_module(name: str) -> bool:
    """Return whether a module of that name can be found. It is not imported, but packages above it are."""
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def split(words: Sequence[str], options: type) -> tuple[list[str], list[str], list[str]]:
    """Split a command line into names, flags that are fields of `options`, and all other flags, which belong to the experiments.

    All words after '--' belong to the experiments.
    """
    own = {field.name.replace("_", "-") for field in fields(options)} | {"help"}
    count = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    ours: list[str] = []
    others: list[str] = []
    target = ours
    for i, word in enumerate(words[count:], count):
        if word == "--":
            return list(words[:count]), ours, [*others, *words[i + 1 :]]
        if word.startswith("--") or word == "-h":
            name = word.strip("-").partition("=")[0].replace("_", "-")
            target = ours if name.removeprefix("no-") in own or word == "-h" else others
        target.append(word)
    return list(words[:count]), ours, others


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and train."""
    console = Console()
    with leaving_with_a_line(console):
        names, ours, others = split(command_line(arguments), Options)
        options = parse_dataclass(Options, ours, PROGRAM, ABOUT, Options(), WORDS)
        if not names:
            raise UsageError("no experiment is named: `python -m experiments` lists them")
        check_distinct("names", names)
        code = sweep([experiment_named(name) for name in names], options, others, console)
    sys.exit(code)


if __name__ == "__main__":
    main()
