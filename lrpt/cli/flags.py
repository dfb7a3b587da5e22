"""Typed command-line flags: a preset is a value, and every field of the configuration overrides a part of it."""

import contextlib
import io
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import tyro

from lrpt.cli.experiment import Experiment
from lrpt.devices.parallel import check_devices
from lrpt.devices.processes import Distributed
from lrpt.errors import UsageError, check_at_least
from lrpt.networks.protocol import NetworkConfig
from lrpt.optim import OptimConfig
from lrpt.training.config import D, RunConfig, TrainConfig

SEEDS = 2**32 - 2**16
"""Seeds above are not told apart by JAX; the margin is for --seeds."""


M = TypeVar("M", bound=NetworkConfig)


def check_seeds(first: int, count: int = 1) -> None:
    """Raises a UsageError unless there are so many seeds from the first one on."""
    if not 0 <= first <= SEEDS - count:
        raise UsageError(f"seed is {first}: expected 0 to {SEEDS - count}")


@dataclass(frozen=True)
class Command(Generic[M, D]):
    """What a command line says."""

    model: M
    optim: OptimConfig
    train: TrainConfig
    data: D
    preset: str = "quick"
    """configuration that the other flags change"""
    seed: int = 0
    """decides parameters, data and the order of batches"""
    seeds: int = 1
    """train this many seeds, from --seed on, and give mean and standard deviation"""
    compare: bool = False
    """train every variant of the model side by side"""
    vary: tuple[str, ...] = ()
    """FLAG=VALUE,VALUE...: train every combination, as in --vary model.rank=8,24 optim.learning-rate=1e-3,1e-2"""
    workdir: Path | None = None
    """where to write (None: runs/<experiment>)"""
    devices: int | None = None
    """devices to use; on a CPU, host devices to make (None: all accelerators, or as many as there are cores for)"""
    distributed: Distributed = field(default_factory=Distributed)

    def __post_init__(self) -> None:
        check_seeds(self.seed)
        check_at_least(1, self, "seeds", "devices")
        if self.devices and self.seeds == 1:
            check_devices(self.devices, self.train.batch_size)
        if self.compare and self.train.start:
            raise UsageError(f"train.start is {self.train.start}, which fits one model: give a single model with --no-compare")

    @property
    def config(self) -> RunConfig[D]:
        """The part that decides the numbers of a run."""
        return RunConfig(self.model, self.optim, self.train, self.data)


def parse(experiment: Experiment[Any], arguments: Sequence[str]) -> Command[Any, Any]:
    """The command that `arguments` give for an experiment.

    Raises:
      UsageError: an unknown flag or preset, or a value that is empty or does not fit; one line.
    """
    for argument in arguments:
        if re.fullmatch(r"(--[\w.-]+=)?\s*", argument):
            raise UsageError(f"argument '{argument}' is empty: give a value, or leave the flag out")
    name = _preset_name(experiment, arguments)
    preset = experiment.presets[name]
    config = preset.config
    default = Command(config.model, config.optim, config.train, config.data, preset=name, compare=preset.compare)
    program = f"python -m experiments.{experiment.name}"
    return parse_dataclass(Command[type(config.model), type(config.data)], arguments, program, _description(experiment), default)


def combinations(experiment: Experiment[Any], arguments: Sequence[str]) -> dict[str, Command[Any, Any]]:
    """The command that `arguments` give, under the name ''; with --vary one for each combination, named as 'rank8-learning_rate0.01'.

    Raises:
      UsageError: as `parse`; a variation without values.
    """
    command = parse(experiment, arguments)
    if not command.vary:
        return {"": command}
    choices = [_choices(word) for word in command.vary]
    commands: dict[str, Command[Any, Any]] = {}
    for values in itertools.product(*choices):
        name = "-".join(f"{flag.rpartition('.')[2].replace('-', '_')}{value.replace('/', '_')}" for flag, value in values)
        if name in commands or len({flag for flag, _ in values}) < len(values):
            raise UsageError(f"vary is '{' '.join(command.vary)}', and two of these runs would be one: give each flag and each value once")
        commands[name] = parse(experiment, [*arguments, *(word for flag, value in values for word in _given(flag, value))])
    return commands


def _given(flag: str, value: str) -> list[str]:
    """The words that give a flag a value; True and False are those of a switch."""
    return words(flag, value == "True") if value in ("True", "False") else [f"--{flag}={value}"]


def _choices(word: str) -> list[tuple[str, str]]:
    """'model.rank=8,24' -> [('model.rank', '8'), ('model.rank', '24')]."""
    flag, _, values = word.partition("=")
    found = [(flag, value) for value in values.split(",")]
    if not flag.startswith(("model.", "optim.", "train.", "data.")) or any(not value for _, value in found):
        raise UsageError(f"vary is '{word}': expected a flag of model, optim, train or data and its values, as in model.rank=8,24")
    return found


def words(name: str, value: Any) -> list[str]:
    """The words of a command line that give a setting its value: model.weight_norm = False -> --model.no-weight-norm."""
    group, _, field = name.replace("_", "-").partition(".")
    if isinstance(value, bool):
        return [f"--{group}.{field}" if value else f"--{group}.no-{field}"]
    return [f"--{group}.{field}", *map(str, value if isinstance(value, list | tuple) else [value])]


def _preset_name(experiment: Experiment[Any], arguments: Sequence[str]) -> str:
    """--preset is looked for first, as it decides what the other flags start from."""
    names = [a.partition("=")[2] for a in arguments if a.startswith("--preset=")]
    names += [value for flag, value in itertools.pairwise(arguments) if flag == "--preset"]
    name = names[-1] if names else "quick"
    if name not in experiment.presets:
        raise UsageError(f"unknown preset '{name}' of {experiment.name}: choose from {', '.join(experiment.presets)}")
    return name


def _description(experiment: Experiment[Any]) -> str:
    presets = (f"  {name}: {preset.about} ({preset.cost})" for name, preset in experiment.presets.items())
    further = [f"Subcommands, each with a --help of its own: {', '.join(experiment.subcommands)}.", ""] if experiment.subcommands else []
    return "\n".join([experiment.about, f"Reproduces: {experiment.reproduces}.", "", *further, "Presets:", *presets])


def parse_dataclass(kind: Any, arguments: Sequence[str], program: str, description: str, default: Any) -> Any:
    """`tyro.cli`, whose framed messages become one line each.

    Raises:
      UsageError: the arguments do not fit.
    """
    captured = io.StringIO()
    try:
        with contextlib.redirect_stderr(captured):
            return tyro.cli(kind, args=list(arguments), prog=program, description=description, default=default)
    except SystemExit as leaving:
        if leaving.code in (0, None):
            raise
        raise UsageError(f"{_unframed(captured.getvalue())}; see {program} --help") from None


def _unframed(text: str) -> str:
    """The message inside one of tyro's frames, with the flag it proposes for a misspelled one.

    Frames are drawn with other characters, or none, where standard output does not say that it is UTF-8. The first line is the title.
    """
    inner = [line.strip(" │") for line in text.splitlines()[1:]]
    blocks = (list(lines) for is_rule, lines in itertools.groupby(inner, lambda line: set(line) <= set("─-╰╯")) if not is_rule)
    message = " ".join(next(blocks, ["the command line cannot be read"])).rstrip(".")
    message = re.sub(r"^Error parsing \w+: ", "", message)  # before our own messages, which name the flag themselves
    proposal = re.search(r"Perhaps you meant:\s+(--\S+)", " ".join(inner))
    return f"{message}; perhaps you meant {proposal[1]}" if proposal else message
