"""Trained runs, the experiments they belong to, and the command lines that train their configurations."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lrpt.cli.experiment import Experiment, experiment_of
from lrpt.cli.flags import parse, words
from lrpt.errors import UsageError
from lrpt.runs.configuration import flatten, to_json
from lrpt.runs.console import Console
from lrpt.trained.loading import Loaded, State, load


def read_run(path: Path, console: Console, state: State = "best", data_dir: Path | None = None) -> Loaded:
    """Read a trained run for a command: `lrpt.load`, with warnings on the console."""
    return load(path, state=state, data_dir=data_dir, warn=console.warn)


def not_one_source(run: Path | None, source: Path | None) -> UsageError:
    """Return the error for a command to which both or neither of a run and a file of weights were given."""
    if run is None:
        return UsageError("no network is named: give one run directory, or --from and a file")
    return UsageError(f"{run} and --from {source} are both given: choose one")


def experiment_with(trained: Loaded) -> Experiment[Any]:
    """Return the experiment that a run belongs to.

    Raises:
      UsageError: there is none, as for runs of `lrpt.training.loop.fit`.
    """
    found = experiment_of(trained.experiment)
    if found is None:
        raise UsageError(
            f"{trained.path} holds a run of '{trained.experiment}', which is no module of experiments: name a run of one of them"
        )
    return found


def flags(experiment: Experiment[Any], preset: str, settings: Mapping[str, Any]) -> list[str]:
    """Return the flags that change a preset to the given settings ('model.rank' -> value)."""
    start = ["--preset", preset, "--no-compare"]
    usual = flatten(to_json(parse(experiment, start).config))
    return start + [word for name, value in settings.items() if usual.get(name) != value for word in words(name, value)]
