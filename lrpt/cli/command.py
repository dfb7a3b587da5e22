"""Entry point of every experiment: from a command line to run directories."""

import contextlib
import dataclasses
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lrpt.cli.experiment import Experiment
from lrpt.cli.flags import Command, combinations, command_line
from lrpt.cli.imports import without_imports
from lrpt.cli.limits import check_sizes
from lrpt.cli.subcommands import dispatch
from lrpt.cli.summary import draw_curves, summarize
from lrpt.cli.unused import group_by_numbers, warnings
from lrpt.devices import hardware, parallel, processes
from lrpt.errors import INTACT, WRONG_FLAG, RemoteFailure, UnknownName, UsageError, line_of
from lrpt.metrics import is_lower_better
from lrpt.runs.configuration import flatten, to_json
from lrpt.runs.console import Console
from lrpt.runs.layout import CONFIG, FIGURES, RESULT
from lrpt.runs.signals import CtrlC, Interrupted
from lrpt.training.config import RunConfig
from lrpt.training.event_files import EventFiles
from lrpt.training.loop import Job, SomeFailed, fit_all, is_finished, most_together
from lrpt.training.observers import Observer
from lrpt.training.selection import ENDED

BROKEN_PIPE_STATUS = 128 + 13
"""exit status after a broken pipe, as in `| head`; Windows has no name for the signal"""

RUN_UNCHANGED = "the run was not changed; correct this and repeat the command"
"""End of an error message of commands that only read runs."""


def main(experiment: Experiment[Any], arguments: Sequence[str] | None = None) -> None:
    """Run an experiment, or the subcommand that the first word names. Map errors to one line and an exit status."""
    console, words = Console(), command_line(arguments)
    with leaving_with_a_line(console):
        words = without_imports(words)
        if experiment.subcommands and words and not words[0].startswith("-"):
            dispatch(experiment.subcommands, words, experiment.program, console)
        else:
            run(experiment, combinations(experiment, words), console)


@contextmanager
def leaving_with_a_line(console: Console, intact: str = INTACT) -> Iterator[None]:
    """Map exceptions to one line and an exit status; `intact` ends the line.

    The status is 0 after success, 2 if a flag is wrong, 128 + n after signal n (silently after a broken pipe), and 1 for other errors.
    """
    try:
        try:
            with exit_on_usage_error(console), CtrlC():
                yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise Python prints an error when it flushes on exit
        sys.exit(BROKEN_PIPE_STATUS)
    except RemoteFailure as error:
        sys.exit(error.code)
    except Interrupted as error:
        if processes.is_primary():  # all processes are interrupted together
            console.error(str(error))
        sys.exit(error.code)
    except OSError as error:
        console.error(line_of(error, intact))
        sys.exit(1)
    except KeyboardInterrupt:
        console.error(f"stopped by Ctrl-C: {intact}")
        sys.exit(128 + signal.SIGINT)
    except (MemoryError, RuntimeError, ValueError) as error:
        if processes.has_lost_another(error):
            console.error(f"another process is lost ({str(error).partition(chr(10))[0]}): {intact}")
            processes.abandon()
        if not hardware.is_out_of_memory(error):
            raise
        console.error(f"out of memory ({str(error).partition(chr(10))[0]}): choose a smaller model, batch or data set; {intact}")
        sys.exit(1)


@contextmanager
def exit_on_usage_error(console: Console) -> Iterator[None]:
    """Print a UsageError as one line, and exit with its code."""
    try:
        yield
    except UsageError as error:
        hint = "; or import the module that adds it, with --import MODULE" if isinstance(error, UnknownName) else ""
        console.error(f"{error}{hint}")
        sys.exit(error.code)


@contextmanager
def concluding(conclude: Callable[[], None], console: Console) -> Iterator[None]:
    """Call `conclude` after the body, even if training is interrupted or fails.

    It is not called if a flag is wrong. Then nothing was trained, and the directories may hold the runs of another command. If both fail,
    the error of the body is raised, and that of `conclude` is a warning.
    """
    try:
        yield
    except BaseException as error:
        if not (isinstance(error, UsageError) and error.code == WRONG_FLAG):
            try:
                conclude()
            except UsageError as other:
                console.warn(str(other))
        raise
    conclude()


def run(experiment: Experiment[Any], commands: Mapping[str, Command[Any, Any]], console: Console) -> list[dict[str, Any]]:
    """Train every model and seed of one or several commands. Conclude several runs with a table, a summary and a plot."""
    command, same = next(iter(commands.values())), group_by_numbers(planned(experiment, commands))
    jobs = list(same)
    check_sizes((job.config for job in jobs), command.huge)
    several, directories = len(jobs) > 1, [job.path for job in jobs]
    processes.join(command.distributed)
    width = min(job.config.dense_width for job in jobs)
    parallel.request_devices(command.devices, most_together(jobs), command.train.batch_size, width, command.keep_programs)
    _warn_of_unused(experiment, commands, same, console)
    score, chooses = experiment.score_of(command.preset), len(_learning_rates(experiment, command)) > 1
    if chooses:
        is_lower_better(score)  # to fail before training, not after it
    names = {"experiment": experiment.name, "preset": command.preset}
    observers = _observers(experiment, command, console)

    def tell(results: Mapping[Path, dict[str, Any]]) -> None:
        title = _title(experiment, command.preset)
        summarize(_root(experiment, command), score, list(results.values()), list(results), title, console, chooses)

    try:
        results = fit_all(jobs, names=names, devices=command.devices, console=console, observers=observers)
    except SomeFailed as error:
        if error.results:
            tell(error.results)
        raise

    def say() -> None:
        if several:
            tell(dict(zip(directories, results, strict=True)))
        else:
            _report(experiment, results[0], directories[0], console)
        if experiment.ending:
            experiment.ending(_best(results, directories), console)
        if experiment.closing_of(command.preset) and command.compare and _has_cell_of_preset(experiment, command):
            console.say(closing(experiment, command))

    processes.on_primary(say)
    return results


def _warn_of_unused(
    experiment: Experiment[Any], commands: Mapping[str, Command[Any, Any]], same: Mapping[Job, Sequence[Job]], console: Console
) -> None:
    """Warn of flags that no run reads, and of runs that would repeat another one (`lrpt.cli.unused.group_by_numbers`)."""
    if processes.is_primary():
        preset = experiment.presets[next(iter(commands.values())).preset].config
        for line in warnings(preset, [command.config for command in commands.values()], [job.config for job in same]):
            console.warn(line)
        for job, others in same.items():
            if others:
                console.warn(f"{', '.join(other.path.name for other in others)} would repeat {job.path.name}, and is not trained")


def _observers(experiment: Experiment[Any], command: Command[Any, Any], console: Console) -> list[Observer]:
    """Return the observers that the command line asks for.

    Raises:
      UsageError: an extra is not installed, or the experiment has no text to sample.
    """
    found: list[Observer] = [EventFiles()] if "tensorboard" in command.log else []
    if command.samples and experiment.observes_text is None:
        raise UsageError(f"samples is {command.samples}, and {experiment.name} has no text to write: choose 0")
    if command.samples and experiment.observes_text:
        found.append(experiment.observes_text(command.samples, console))
    return found


def _best(results: Sequence[Mapping[str, Any]], directories: Sequence[Path]) -> Path:
    """Return the directory of the run with the lowest validation loss."""
    return min(zip(results, directories, strict=True), key=lambda pair: pair[0]["metrics"]["valid"]["loss"])[1]


def _has_cell_of_preset(experiment: Experiment[Any], command: Command[Any, Any]) -> bool:
    """Return whether the networks have the cell that the last lines of the preset are about."""
    cells = [getattr(config.model, "cell", None) for config in (command.config, experiment.presets[command.preset].config)]
    return cells[0] == cells[1]


def closing(experiment: Experiment[Any], command: Command[Any, Any]) -> str:
    """Return the last lines after a comparison, with the directories and the seed of this command in its hints.

    A hint to train several seeds is left out if several were trained.
    """
    here = experiment.closing_of(command.preset).replace(f"runs/{experiment.name}/", f"{_root(experiment, command)}/")
    lines = here.replace("-seed0", f"-seed{command.seed}").split("\n")
    return "\n".join(line for line in lines if command.seeds == 1 or not (line.startswith("  python -m ") and " --seeds " in line))


def planned(experiment: Experiment[Any], commands: Mapping[str, Command[Any, Any]], several: bool = False) -> list[Job]:
    """Return the runs of one or several commands. Several runs, or runs that count as `several`, get directories below --workdir."""
    command = next(iter(commands.values()))
    models = {
        "-".join(filter(None, (name, variant))): config
        for name, one in commands.items()
        for variant, config in _models(experiment, one).items()
    }
    several = several or len(models) * command.seeds > 1
    return [
        Job(config, seed, path)
        for name, config in models.items()
        for seed, path in _directories(experiment, command, name, several).items()
    ]


def _models(experiment: Experiment[Any], command: Command[Any, Any]) -> dict[str, RunConfig[Any]]:
    """Return a configuration for each variant of a comparison, or the only configuration of a single model."""
    if not command.compare:
        return {"": command.config}
    _check_not_compared(experiment, command)
    rates = _learning_rates(experiment, command)
    return {
        "-".join([name, *([f"learning_rate{rate:g}"] if len(rates) > 1 else [])]): dataclasses.replace(
            command.config,
            model=dataclasses.replace(command.model, **changes),
            optim=dataclasses.replace(command.optim, learning_rate=rate),
        )
        for name, changes in experiment.variants_of(command.preset).items()
        for rate in rates
    }


def _learning_rates(experiment: Experiment[Any], command: Command[Any, Any]) -> tuple[float | None, ...]:
    """Return the learning rates of a comparison: those of the preset, or the one that the command line gives."""
    preset = experiment.presets[command.preset]
    several = command.compare and preset.learning_rates and not command.rate_given
    return preset.learning_rates if several else (command.optim.learning_rate,)


def _check_not_compared(experiment: Experiment[Any], command: Command[Any, Any]) -> None:
    """Check that the command line gives no setting that the comparison varies.

    Raises:
      UsageError: it does.
    """
    usual, given = (flatten(to_json(model)) for model in (experiment.presets[command.preset].config.model, command.model))
    short_names: Mapping[str, str] = getattr(command.model, "short_names", {})
    for name in {name: None for changes in experiment.variants_of(command.preset).values() for name in changes}:
        setting = short_names.get(name, name)
        if given.get(setting) != usual.get(setting):
            raise UsageError(f"model.{name} is {given[setting]}, and the comparison varies it: give --no-compare for one model")


def _title(experiment: Experiment[Any], preset: str) -> str:
    """Return the title of tables and plots: the task in words, and where it is from."""
    return f"{experiment.about.rstrip('.')} ({experiment.name}, preset {preset})"


def _root(experiment: Experiment[Any], command: Command[Any, Any]) -> Path:
    return command.workdir or Path("runs") / experiment.name


def _directories(experiment: Experiment[Any], command: Command[Any, Any], variant: str, several: bool) -> dict[int, Path]:
    """Return the run directory of each seed. A single run with --workdir uses that directory itself."""
    seeds = range(command.seed, command.seed + command.seeds)
    if command.workdir is not None and not several:
        return {command.seed: command.workdir}
    if not several and (equal := _equal_in_comparison(experiment, command)):
        return {command.seed: equal}
    stem = "-".join(filter(None, (command.preset, variant)))
    return {seed: _root(experiment, command) / f"{stem}-seed{seed}" for seed in seeds}


def _equal_in_comparison(experiment: Experiment[Any], command: Command[Any, Any]) -> Path | None:
    """Return the directory of the same run in a comparison that has trained it already, unless it has a directory of its own."""
    preset = experiment.presets[command.preset]
    own = _root(experiment, command) / f"{command.preset}-seed{command.seed}"
    if command.compare or not preset.compare or (own / CONFIG).exists():
        return None
    compared = [dataclasses.replace(command, compare=True, rate_given=given) for given in {command.rate_given, False}]
    try:
        models = [model for one in compared for model in _models(experiment, one).items()]
    except UsageError:  # a flag gives what the comparison varies
        return None
    paths = [own.with_name(f"{command.preset}-{name}-seed{command.seed}") for name, config in models if config == command.config]
    names = {"experiment": experiment.name, "preset": command.preset}
    with contextlib.suppress(UsageError):  # its comparison had other settings
        return next((path for path in paths if is_finished(Job(command.config, command.seed, path), names)), None)
    return None


def _report(experiment: Experiment[Any], result: dict[str, Any], path: Path, console: Console) -> None:
    """Print the result of a single run, and draw its learning curve unless the plot is up to date."""
    figure = path / FIGURES / "learning_curves.png"
    if not figure.exists() or figure.stat().st_mtime < (path / RESULT).stat().st_mtime:
        draw_curves(path, experiment.score_of(result["preset"]), [result], [path], _title(experiment, result["preset"]))
    for split, metrics in result["metrics"].items():
        console.say(f"{split}: " + "  ".join(f"{name} {value:.5g}" for name, value in metrics.items()))
    counts = result["parameters"]
    spent = f"{result['updates']:,} updates in {result['seconds']:,} s ({ENDED[result['stopped']]})"
    console.say(f"{result['model']}: {counts['true']:,} parameters, {spent}")
    console.say(f"result: {path / RESULT}   learning curve: {figure}")
