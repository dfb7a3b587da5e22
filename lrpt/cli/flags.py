"""Typed command-line flags: a preset is a configuration, and each flag overrides one of its settings."""

import contextlib
import inspect
import io
import itertools
import math
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

import tyro

from lrpt.cli.experiment import Experiment
from lrpt.cli.imports import ABOUT, without_imports
from lrpt.cli.limits import check_runs, check_sizes
from lrpt.cli.tyro_errors import one_line
from lrpt.devices.parallel import check_devices
from lrpt.devices.processes import Distributed
from lrpt.errors import SEEDS, UnknownName, UsageError, check_at_least
from lrpt.networks.protocol import NetworkConfig
from lrpt.optim import OptimConfig
from lrpt.settings import names_of_model
from lrpt.training.config import D, RunConfig, TrainConfig

Log = Literal["tensorboard"]
"""Formats in which metrics are logged beside `metrics.jsonl`."""

MOST_SEEDS = SEEDS - 2**16
"""Upper bound of seeds on the command line; the margin is for --seeds."""


M = TypeVar("M", bound=NetworkConfig)


def check_seeds(first: int, count: int = 1) -> None:
    """Raise a UsageError unless `count` seeds, from `first` on, are in the range that JAX distinguishes."""
    if not 0 <= first <= MOST_SEEDS - count:
        raise UsageError(f"seed is {first}: expected 0 to {MOST_SEEDS - count}")


@dataclass(frozen=True)
class Command(Generic[M, D]):
    """Flags of an experiment, with their values."""

    model: M
    optim: OptimConfig
    train: TrainConfig
    data: D
    preset: str = "quick"
    """named configuration that the other flags change"""
    seed: int = 0
    """seed of parameters, synthetic data, the order of batches, dropout and the permutation of pixels"""
    seeds: int = 1
    """number of seeds to train, from --seed on; the table gives mean and standard deviation"""
    compare: bool = False
    """train every variant of the model, for a table that compares them"""
    vary: tuple[str, ...] = ()
    """FLAG=VALUE,VALUE...: train every combination, such as --vary model.rank=8,24 optim.learning-rate=1e-3,1e-2"""
    workdir: Path | None = None
    """directory of the run, or of the runs if there are several (None: below runs/<experiment>)"""
    log: tuple[Log, ...] = ()
    """tensorboard: write event files to the run directory while it trains (pip install -e '.[tensorboard]')"""
    samples: int = 0
    """symbols that a language model writes at each evaluation (0: none)"""
    devices: int | None = None
    """number of devices to use; on a CPU, devices to divide it into (None: all accelerators, or as many as the cores allow)"""
    distributed: Distributed = field(default_factory=Distributed)
    keep_programs: bool = True
    """keep compiled programs in the user's cache folder (~/.cache/lrpt/programs), so that the same command starts faster next time"""
    huge: bool = False
    """go on even if estimates of runs, parameters or bytes exceed the limits"""
    rate_given: tyro.conf.Suppress[bool] = False
    """whether the command line gives a learning rate, which a comparison then has instead of several"""

    def __post_init__(self) -> None:
        check_seeds(self.seed)
        check_at_least(1, self, "seeds", "devices")
        check_at_least(0, self, "samples")
        if self.devices and self.seeds == 1:
            check_devices(self.devices, self.train.batch_size)
        if self.compare and self.train.start:
            raise UsageError(f"train.start is {self.train.start}, which fits one model: give a single model with --no-compare")

    @property
    def config(self) -> RunConfig[D]:
        """Return the part that decides the numbers of a run."""
        return RunConfig(self.model, self.optim, self.train, self.data)


@dataclass(frozen=True)
class _OfPreset:
    """The flag that selects the preset, which gives the other flags their defaults."""

    preset: str = "quick"


def parse(experiment: Experiment[Any], arguments: Sequence[str]) -> Command[Any, Any]:
    """Return the command that `arguments` give for an experiment.

    Raises:
      UsageError: a flag or preset is unknown, or a value is empty or does not fit; one line.
    """
    for argument in arguments:
        if re.fullmatch(r"(--[\w.-]+=)?\s*", argument):
            raise UsageError(f"argument '{argument}' is empty: give a value, or leave the flag out")
    program = experiment.program
    name, rest = chosen_preset(experiment.presets, arguments, program, experiment.name)
    default = command_of(experiment, name)
    if not rest:
        return default  # without tyro, which takes a third of a second to read all flags
    config = default.config
    rest = [_with_full_name(word, _short_names(config)) for word in rest]
    description = _description(experiment, _short_names(config))
    data = Annotated[type(config.data), tyro.conf.arg(help=about_data(type(config.data)))]
    command = Command[type(config.model), data]  # pyright: ignore[reportInvalidTypeArguments]  # annotated for help
    rate_given = any(flag_in(word) == "--optim.learning-rate" for word in rest)
    short_flags = [_flag(name) for name in _short_names(config)]
    return parse_dataclass(command, rest, program, description, replace(default, rate_given=rate_given), short_flags=short_flags)


def command_of(experiment: Experiment[Any], preset: str) -> Command[Any, Any]:
    """Return the command of a preset, without other flags."""
    found = experiment.presets[preset]
    config = found.config
    return Command(config.model, config.optim, config.train, config.data, preset=preset, compare=found.compare)


def chosen_preset(presets: Mapping[str, Any], arguments: Sequence[str], program: str, owner: str) -> tuple[str, list[str]]:
    """Return the name of the preset, which is the last one given, and the other arguments.

    Raises:
      UsageError: `owner` has no such preset.
    """
    with _one_line_errors(program):
        found, rest = tyro.cli(_OfPreset, args=list(arguments), return_unknown_args=True, add_help=False, prog=program)
    if found.preset not in presets:
        raise UsageError(f"unknown preset '{found.preset}' of {owner}: choose from {', '.join(presets)}")
    return found.preset, rest


def _short_names(config: RunConfig[Any]) -> dict[str, str]:
    """Return the flags of settings in groups by their short names: 'model.rank' -> 'model.matrices.rank'."""
    return names_of_model(getattr(config.model, "short_names", {}))


def _with_full_name(word: str, short_names: Mapping[str, str]) -> str:
    """Expand a short flag: --model.no-weight-norm -> --model.matrices.no-weight-norm. Return other words unchanged."""
    flag, equals, value = word.partition("=")
    group, _, field = flag.removeprefix("--").replace("-", "_").partition(".")
    switched_off = field.startswith("no_") and f"{group}.{field}" not in short_names
    full = short_names.get(f"{group}.{field.removeprefix('no_') if switched_off else field}")
    if not (flag.startswith("--") and full):
        return word
    return _flag(full, off=switched_off) + equals + value


def flag_in(word: str) -> str:
    """Return the flag of a word, without its value: '--model.carry_bias=1' -> '--model.carry-bias'."""
    return word.partition("=")[0].replace("_", "-")


def _check_one_name_each(words: Sequence[str], short_names: Mapping[str, str]) -> None:
    """Raise a UsageError if a setting is given by its short and by its full name: one of the two values would be ignored."""
    spelled: dict[str, set[str]] = {}
    for word in words:
        flag = flag_in(word)
        if flag.startswith("--"):
            spelled.setdefault(_with_full_name(flag, short_names), set()).add(flag)
    for names in spelled.values():
        if len(names) > 1:
            raise UsageError(f"{' and '.join(sorted(names))} are two names of one setting: give one of them")


def _flag(name: str, off: bool = False) -> str:
    """Return the flag of a setting: model.matrices.weight_norm -> --model.matrices.weight-norm, or --model.matrices.no-weight-norm."""
    groups, _, field = name.replace("_", "-").rpartition(".")
    return f"--{groups}.{'no-' if off else ''}{field}"


def combinations(experiment: Experiment[Any], arguments: Sequence[str]) -> dict[str, Command[Any, Any]]:
    """Return the command under the name '', or with --vary one command for each combination, named as 'rank8-learning_rate0.01'.

    Raises:
      UsageError: the errors of `parse`; a variation has no values, or two combinations are the same run.
    """
    command = parse(experiment, arguments)
    _check_one_name_each(arguments, _short_names(command.config))
    if not command.vary and any(flag_in(word) == "--vary" for word in arguments):
        raise _no_variation("")
    check_runs(math.prod(word.count(",") + 1 for word in command.vary) * command.seeds, command.huge)
    check_sizes([command.config], command.huge)
    if not command.vary:
        return {"": command}
    choices, short_names = [_choices(word) for word in command.vary], _short_names(command.config)
    commands: dict[str, Command[Any, Any]] = {}
    for values in itertools.product(*choices):
        name = "-".join(f"{flag.rpartition('.')[2].replace('-', '_')}{value.replace('/', '_')}" for flag, value in values)
        varied = {_with_full_name(f"--{flag}", short_names) for flag, _ in values}
        if name in commands or len(varied) < len(values):
            raise UsageError(f"vary is '{' '.join(command.vary)}', and two of these runs would be one: give each flag and each value once")
        commands[name] = parse(experiment, [*arguments, *(word for flag, value in values for word in given(flag, value))])
    return commands


def given(flag: str, value: str) -> list[str]:
    """Return the words that give a flag a value; True and False set a switch."""
    return words(flag, value == "True") if value in ("True", "False") else [f"--{flag}={value}"]


def _choices(word: str) -> list[tuple[str, str]]:
    """Split a variation: 'model.rank=8,24' -> [('model.rank', '8'), ('model.rank', '24')]."""
    flag, _, values = word.partition("=")
    found = [(flag, value) for value in values.split(",")]
    if not flag.startswith(("model.", "optim.", "train.", "data.")) or any(not value for _, value in found):
        raise _no_variation(word)
    return found


def _no_variation(word: str) -> UsageError:
    return UsageError(f"vary is '{word}': expected a flag of model, optim, train or data and its values, as in model.rank=8,24")


def words(name: str, value: Any) -> list[str]:
    """Return the words that give a setting its value: model.matrices.weight_norm = False -> --model.matrices.no-weight-norm."""
    if isinstance(value, bool):
        return [_flag(name, off=not value)]
    return [_flag(name), *map(str, value if isinstance(value, list | tuple) else [value])]


def _description(experiment: Experiment[Any], short_names: Mapping[str, str]) -> str:
    presets = (f"  {name}: {experiment.listed(name)}" for name in experiment.presets)
    further = (f"  {name}: {found.about.partition(chr(10))[0]}" for name, found in experiment.subcommands.items())
    subcommands = ["Subcommands, each with a --help of its own:", *further, ""] if experiment.subcommands else []
    short = ["", "Short flags:", *(f"  {_flag(name)} for {_flag(full)}" for name, full in short_names.items())] if short_names else []
    lines = [f"{experiment.about} Reproduces: {experiment.reproduces}.", "", *subcommands, "Presets:", *presets, *short]
    return "\n".join(lines)


def about_data(kind: type) -> str:
    """Return what help says of the data: the first paragraph of a docstring, and where to read the others.

    The others are for documentation pages. They contain tables in Markdown, which help would wrap as prose.
    """
    text = inspect.cleandoc(kind.__doc__ or "")
    first, _, more = ("" if text.startswith(f"{kind.__name__}(") else text).partition("\n\n")  # dataclasses write a signature there
    can_import = kind.__module__ != "__main__"
    return f"{first}\n\nDetails: python -m pydoc {kind.__module__}.{kind.__qualname__}" if more and can_import else first


def command_line(arguments: Sequence[str] | None) -> list[str]:
    """Return the words of a command line: those that are given, or those of the process if `arguments` is None."""
    return list(sys.argv[1:] if arguments is None else arguments)


def parse_dataclass(
    kind: Any,
    arguments: Sequence[str] | None,
    program: str,
    description: str,
    default: Any,
    words: str = "",
    short_flags: Sequence[str] = (),
) -> Any:
    """Parse arguments into a dataclass with `tyro.cli`, after the modules of `--import` are imported.

    Args:
      kind: the dataclass.
      arguments: words of the command line (None: those of the process), without those that the caller has read itself.
      program: how the command is called.
      description: what help says of the command.
      default: the dataclass with its defaults.
      words: what the usage line shows between the program and the flags: the words that the caller reads itself.
      short_flags: flags that the caller reads itself, which may be proposed for a misspelled one.

    Raises:
      UsageError: the arguments do not fit; one line.
    """
    others = without_imports(command_line(arguments))
    _check_lists(kind, others)
    shown = f"{program} {words}".rstrip()
    with _one_line_errors(program, short_flags):
        return tyro.cli(kind, args=others, prog=shown, description=_wrapped(f"{description}\n\n{ABOUT}"), default=default)


def _check_lists(kind: Any, arguments: Sequence[str]) -> None:
    """Raise a UsageError if a flag that takes several values is given twice. tyro would keep the last ones only, without a word."""
    given = [flag_in(word) for word in arguments]
    dataclass_kind = get_origin(kind) or kind
    hints = get_type_hints(dataclass_kind)
    for setting in fields(dataclass_kind):
        flag = f"--{setting.name.replace('_', '-')}"
        if _takes_several(hints[setting.name]) and given.count(flag) > 1:
            raise UsageError(f"argument '{flag}' is given {given.count(flag)} times: give it once, with all its values behind it")


def _takes_several(hint: Any) -> bool:
    """Return whether a setting of this type takes several values: a tuple, which may be optional."""
    return any(get_origin(kind) is tuple for kind in (hint, *get_args(hint)))


def _wrapped(text: str) -> str:
    """Wrap each line to the width of the terminal. tyro does not, and joins lines again unless they are indented."""
    width = max(40, shutil.get_terminal_size().columns)

    def lines(line: str) -> list[str]:
        indent = line[: len(line) - len(line.lstrip())]
        return textwrap.wrap(line, width, subsequent_indent=f"{indent}  ", break_long_words=False, break_on_hyphens=False) or [""]

    return "\n".join(part for line in text.split("\n") for part in lines(line))


@contextlib.contextmanager
def _one_line_errors(program: str, short_flags: Sequence[str] = ()) -> Iterator[None]:
    """Convert the error that tyro prints before it exits into a UsageError, an UnknownName if it was raised for one."""
    captured = io.StringIO()
    try:
        with contextlib.redirect_stderr(captured):
            yield
    except SystemExit as leaving:
        if leaving.code in (0, None):
            raise
        kind = UnknownName if any(isinstance(error, UnknownName) for error in _contexts(leaving)) else UsageError
        raise kind(f"{one_line(captured.getvalue(), short_flags)}; see {program} --help") from None


def _contexts(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, and those during whose handling it was raised."""
    while error is not None:
        yield error
        error = error.__context__
