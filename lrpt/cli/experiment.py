"""Experiments as values: what they reproduce, their presets, and the models that they compare; and the look-up of one by its name."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Protocol

from lrpt.runs.console import Console
from lrpt.training.config import D, RunConfig
from lrpt.training.loop import Job
from lrpt.training.observers import Observer


def matrix_variants(dense: str) -> dict[str, dict[str, Any]]:
    """Return variants of a network: with dense matrices, under the name `dense`, with low-rank matrices, and with a diagonal added."""
    kinds = {dense: "dense", "lr": "low_rank", "lrd": "low_rank_plus_diagonal"}
    return {name: {"parametrization": kind} for name, kind in kinds.items()}


def sized_variants(widths: Sequence[int], low_rank: Sequence[int], diagonal: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Return variants of a GRU: with dense matrices of several widths, and with structured ones of the largest width and several ranks.

    Args:
      widths: widths with dense matrices.
      low_rank: ranks without a diagonal.
      diagonal: ranks with a diagonal.
    """
    structured = ("lr", "low_rank", low_rank), ("lrd", "low_rank_plus_diagonal", diagonal)
    return {
        **{f"gru-{size}": {"size": size, "parametrization": "dense"} for size in widths},
        **{f"{name}-{r}": {"size": max(widths), "parametrization": kind, "rank": r} for name, kind, ranks in structured for r in ranks},
    }


GRU_VARIANTS: Mapping[str, Mapping[str, Any]] = matrix_variants("gru")
"""The models of Miceli Barone 2018, by the abbreviations of the paper."""


@dataclass(frozen=True)
class Preset(Generic[D]):
    """A named configuration.

    Attributes:
      config: the configuration.
      about: what it trains and what it reproduces, in one line.
      compare: whether it trains every variant of the experiment, or only its own model.
      learning_rates: in a comparison, each variant trains with each of these, unless another learning rate is given. The validation split
        chooses one for each variant.
      variants: models of the comparison, instead of those of the experiment.
      score: the metric that tables and curves show, instead of that of the experiment.
      closing: last lines after the comparison, instead of those of the experiment.
    """

    config: RunConfig[D]
    about: str
    compare: bool = False
    learning_rates: tuple[float, ...] = ()
    variants: Mapping[str, Mapping[str, Any]] | None = None
    score: str | None = None
    closing: str | None = None


class ManyRuns(Protocol):
    """A study of many runs, as another command needs it to plan them and to train them itself (`lrpt.cli.studies.StudyCommand`)."""

    def names(self, options: Any) -> Mapping[str, str]:
        """Return the names that the runs record."""
        ...

    @property
    def jobs(self) -> Callable[[Any], Sequence[Job]]:
        """Return the function that gives the runs for the options."""
        ...

    @property
    def summary(self) -> str:
        """Return the name of the summary's file."""
        ...

    def described(self, options: Any) -> dict[str, Any]:
        """Return the first entries of the summary and the options."""
        ...

    def is_among(self, options: Any, job: Job, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether one of the rows of a summary with the same options is that of a job."""
        ...

    def conclude(self, options: Any, jobs: Sequence[Job], console: Console) -> None:
        """Write the summary of the finished runs, if there are any."""
        ...


@dataclass(frozen=True)
class Subcommand:
    """A command that the first word of a command line starts instead of training.

    Attributes:
      options: a dataclass, which tyro parses.
      run: takes the options and the console.
      default: options that a command line changes.
      about: what it does, in one line.
      presets: other named options that --preset selects instead of `default`. The options then have a field `preset`.
      study: the study that `run` trains; None for other commands. The options of a study have fields `data` and `workdir`.
    """

    options: type
    run: Callable[[Any, Console], None]
    default: Any
    about: str
    presets: Mapping[str, Any] = field(default_factory=dict)
    study: ManyRuns | None = None


@dataclass(frozen=True)
class Experiment(Generic[D]):
    """An experiment, the content of one module of `experiments`.

    Attributes:
      name: name of the module.
      about: the task in one line.
      reproduces: the paper's table, figure or section.
      presets: presets by name; 'quick' is the default.
      variants: models of a comparison, if there is one: name -> the fields of the model's configuration that it changes.
      score: the metric that tables and curves show.
      closing: last lines after a comparison, for first-time users.
      subcommands: subcommands by the first word of a command line; each has its own --help.
      observes_text: returns an observer that prints text of a language model at each evaluation, for a number of symbols; None for tasks
        without text.
      ending: shows what the best run does after training; takes its directory.
    """

    name: str
    about: str
    reproduces: str
    presets: Mapping[str, Preset[D]]
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    score: str = "loss"
    closing: str = ""
    subcommands: Mapping[str, Subcommand] = field(default_factory=dict)
    observes_text: Callable[[int, Console], Observer] | None = None
    ending: Callable[[Path, Console], None] | None = None

    @property
    def program(self) -> str:
        """Return how it is started: as a module of `experiments` if it is one, otherwise as the program that runs."""
        if is_experiment(self.name):
            return f"python -m experiments.{self.name}"
        spec = sys.modules["__main__"].__spec__
        return f"python -m {spec.name.removesuffix('.__main__')}" if spec else f"python {Path(sys.argv[0]).name}"

    @cached_property
    def costs(self) -> Mapping[str, str]:
        """Return what presets cost, in words: {'quick': '2 minutes on a core'}. An experiment outside of `experiments` has no costs."""
        return importlib.import_module("experiments").costs_of(self.name) if is_experiment(self.name) else {}

    def variants_of(self, preset: str) -> Mapping[str, Mapping[str, Any]]:
        """Return the models that a preset compares."""
        own = self.presets[preset].variants
        return self.variants if own is None else own

    def listed(self, preset: str) -> str:
        """Return what a preset trains, with its cost if it is known."""
        cost = self.costs.get(preset)
        return self.presets[preset].about + (f" [{cost}]" if cost else "")

    def score_of(self, preset: str) -> str:
        """Return the metric that tables and curves show: the preset's, or the experiment's if the preset has none or is unknown.

        Runs of a study record a preset that the experiment does not have.
        """
        own = self.presets[preset].score if preset in self.presets else None
        return own or self.score

    def closing_of(self, preset: str) -> str:
        """Return the last lines after a comparison."""
        own = self.presets[preset].closing
        return self.closing if own is None else own


def experiment_of(name: str) -> Experiment[Any] | None:
    """Return the experiment of that name, if experiments can be imported here and have one. The library does not need them.

    Errors of the experiment's own module come through, such as the ImportError of a package that it needs.
    """
    return getattr(importlib.import_module("experiments").module(name), "EXPERIMENT", None) if is_experiment(name) else None


def is_experiment(name: str) -> bool:
    """Return whether `experiments` can be imported here and has a command of that name. The command itself is not imported."""
    try:
        return name in importlib.import_module("experiments").names()
    except (ImportError, AttributeError):
        return False
