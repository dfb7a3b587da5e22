"""An experiment as a value: what it reproduces, its presets, and the models that a comparison puts side by side."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic

from lrpt.runs.console import Console
from lrpt.training.config import D, RunConfig


def matrix_variants(dense: str) -> dict[str, dict[str, Any]]:
    """A network with full matrices, which has this name, with low-rank ones, and with low-rank ones plus a diagonal."""
    kinds = {dense: "dense", "lr": "low_rank", "lrd": "low_rank_plus_diagonal"}
    return {name: {"parametrization": kind} for name, kind in kinds.items()}


GRU_VARIANTS: Mapping[str, Mapping[str, Any]] = matrix_variants("gru")
"""The models of Miceli Barone 2018 in its own abbreviations."""


@dataclass(frozen=True)
class Preset(Generic[D]):
    """A named configuration.

    Attributes:
      config: the configuration.
      about: what it trains and what it reproduces, in a line.
      cost: time it takes, and on what.
      compare: whether it trains every variant of the experiment, or only its own model.
    """

    config: RunConfig[D]
    about: str
    cost: str
    compare: bool = False


@dataclass(frozen=True)
class Subcommand:
    """What a first word of a command line does instead of training.

    Attributes:
      options: a dataclass, which tyro parses.
      run: takes the options and the console.
      default: options that a command line starts from.
      about: what it does, in a line.
    """

    options: type
    run: Callable[[Any, Console], None]
    default: Any
    about: str


@dataclass(frozen=True)
class Experiment(Generic[D]):
    """What one module of `experiments` holds.

    Attributes:
      name: of the module.
      about: the task in a line.
      reproduces: the paper's table, figure or section.
      presets: by name; 'quick' is the default.
      variants: for comparisons: name -> the fields of the model's configuration that it changes.
      score: the figure that tables and curves show.
      closing: last lines after a comparison, for somebody who sees this for the first time.
      subcommands: by the first word of a command line; each has a --help of its own.
    """

    name: str
    about: str
    reproduces: str
    presets: Mapping[str, Preset[D]]
    variants: Mapping[str, Mapping[str, Any]]
    score: str = "loss"
    closing: str = ""
    subcommands: Mapping[str, Subcommand] = field(default_factory=dict)
