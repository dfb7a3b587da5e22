"""Subcommands of experiments with variable computation: what a trained scheduler does, and what that saves.

    python -m experiments.variable_computation schedule RUN_DIRECTORY    m_t over what is read (Figures 2, 3 and 5)
    python -m experiments.variable_computation hard RUN_DIRECTORY        soft and hard masks in evaluation
    python -m experiments.variable_computation timing RUN_DIRECTORY      time of a step against m, beside counted operations

Jernite et al. 2017. Each prints a table; figures are in the figures/ of the run, numbers in its schedule.npz, hard.json and timing.json.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from lrpt.analysis.block_timing import Timing, time_steps
from lrpt.analysis.figures import png
from lrpt.analysis.schedules import autocorrelation, explained, means_by_symbol, schedule_figure
from lrpt.cells.variable_computation import soft_mask
from lrpt.cli.experiment import Experiment
from lrpt.cli.run_commands import Commands, OnRun, inspect
from lrpt.cli.sampling import run_or_sample
from lrpt.cli.trained import Trained
from lrpt.errors import UsageError, check_at_least
from lrpt.networks.protocol import Start
from lrpt.networks.sequence_model import cell_params, initial_carry
from lrpt.networks.variable_computation import VariableConfig
from lrpt.runs.console import Console
from lrpt.runs.run_directory import write_json
from lrpt.training.step import blank_carry


@dataclass(frozen=True)
class Scheduled(OnRun):
    """m_t over the beginning of a part of the data."""

    counts = ("length", "shown")

    split: str = "valid"
    """train, valid or test"""
    length: int = 8_000
    """steps that figures of the table are means over, as far as there are so many"""
    skip: int = 0
    """steps before the first that is drawn"""
    shown: int = 200
    """steps that are drawn"""
    components: int = 50
    """of the mask that are drawn, the last ones of the state (0: none)"""
    lags: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    """at which the autocorrelation of m_t is taken; 8 is a character of bits, and its buffer is to be added"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(0, self, "skip", "components")
        if min(self.lags, default=0) < 0:
            raise UsageError(f"lags is {' '.join(map(str, self.lags))}: expected numbers of 0 or more")


@dataclass(frozen=True)
class Hard(OnRun):
    """Figures of every part that a model is judged by, with both masks."""


@dataclass(frozen=True)
class Timed(OnRun):
    """At batch 1, over the beginning of the validation part."""

    counts = ("steps", "rounds", "blocks")

    proportions: tuple[float, ...] = (0.1, 0.25, 0.5, 0.75, 1.0)
    """m of constant schedules that are timed beside the trained one"""
    steps: int = 200
    """of each contender in a round"""
    rounds: int = 9
    """turns of each contender; medians are reported"""
    blocks: int = 8
    """sizes of blocks"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(not 0 < m <= 1 for m in self.proportions):
            raise UsageError(f"proportions is {' '.join(map(str, self.proportions))}: expected shares above 0, at most 1")


class Read(NamedTuple):
    """What a network with a scheduler reads, and how much it computes."""

    symbols: Int[np.ndarray, " t"]
    proportions: Float[np.ndarray, "t k"]


def scheduler_of(trained: Trained) -> VariableConfig:
    """The configuration of a run's network.

    Raises:
      UsageError: it has no scheduler, or does not read symbols.
    """
    config = trained.run.config.model
    if not isinstance(config, VariableConfig) or not config.has_scheduler:
        raise UsageError(f"{trained.run.path} holds a {config.label}, which has no scheduler: name a run of vcrnn, vcgru or vclstm")
    return config


def read_schedule(trained: Trained, split: str, length: int) -> Read:
    """The first symbols of a part, each with m of the step that reads it.

    Raises:
      UsageError: no such part, or inputs that are no symbols.
    """
    scheduler_of(trained)
    task, model, variables = trained.run.task, trained.run.model, trained.variables
    if split not in task.splits:
        raise UsageError(f"split is '{split}': choose from {', '.join(task.splits)}")
    part = task.splits[split]
    example = jax.eval_shape(lambda: part.batch(part.arrays, jnp.zeros(1, jnp.int32)))
    if not jnp.issubdtype(example.inputs.dtype, jnp.integer):
        raise UsageError(f"{trained.run.path} reads vectors: name a run that reads symbols")

    def body(carry: Any, index: Any) -> tuple[Any, Any]:
        batch = part.batch(part.arrays, index[None])
        start = Start(carry, index == 0) if task.streams else None
        after, m = model.apply(variables, batch.inputs, batch.mask, start, method="schedule")  # type: ignore[misc]
        counts = jnp.ones_like(batch.inputs, bool) if batch.mask is None else batch.mask
        return (after if task.streams else None), jax.tree.map(lambda rows: rows[0], (batch.inputs, m, counts))

    windows = min(part.size, -(-length // example.inputs.shape[1]))
    carry = blank_carry(model, part, variables, part.arrays, 1) if task.streams else None
    _, (symbols, m, counts) = jax.device_get(jax.jit(lambda carry: jax.lax.scan(body, carry, jnp.arange(windows)))(carry))
    return Read(symbols[counts][:length], m[counts][:length])


def names(trained: Trained, symbols: Sequence[int] | Int[np.ndarray, " t"]) -> list[str]:
    """How symbols are printed: line ends and blanks as signs."""
    vocabulary = trained.run.task.vocabulary
    signs = {"\n": "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}", " ": "\N{OPEN BOX}"}
    known = [str(number) for number in range(trained.run.task.input_size)] if vocabulary is None else vocabulary.symbols
    return [signs.get(known[number], known[number]) for number in symbols]


def show_schedule(options: Scheduled, trained: Trained, console: Console) -> Path:
    """The table has means by symbol and autocorrelations; `schedule.npz` has 'symbols' and 'proportions' of all steps."""
    config, (symbols, m) = scheduler_of(trained), read_schedule(trained, options.split, options.length)
    mean = m.mean(axis=1)
    if options.skip >= len(mean):
        raise UsageError(f"skip is {options.skip}, and {len(mean)} steps were read: choose fewer, or a larger --length")
    np.savez_compressed(options.run / "schedule.npz", symbols=symbols, proportions=m)
    table = means_by_symbol(mean, names(trained, symbols))
    console.table(
        ["symbol", "mean m", "steps"], [[name, f"{value:.3f}", f"{count:,}"] for name, (value, count) in list(table.items())[:20]]
    )
    lags = [lag for lag in options.lags if 0 <= lag < len(mean)]
    console.table(*_by_lag(mean, symbols if trained.run.task.input_size == 2 else None, lags))
    _explain(mean, symbols, config.lag, console)
    console.say(f"mean m {mean.mean():.3f} over {len(mean):,} steps of the {options.split} part")
    shown = slice(options.skip, options.skip + options.shown)
    return schedule_figure(
        m[shown],
        names(trained, symbols[shown]),
        options.figures / "schedule.png",
        _mask(trained, config, m[shown], options),
        config.label,
    )


def _by_lag(m: Float[np.ndarray, " t"], bits: Int[np.ndarray, " t"] | None, lags: Sequence[int]) -> tuple[list[str], list[list[str]]]:
    """A table of autocorrelations, beside those of the bits that were read."""
    series = {"autocorrelation of m": m} | ({"of the bits read": bits} if bits is not None else {})
    return ["lag", *series], [[str(lag), *(f"{autocorrelation(one, lag):+.3f}" for one in series.values())] for lag in lags]


def _explain(m: Float[np.ndarray, " t"], symbols: Int[np.ndarray, " t"], period: int, console: Console) -> None:
    """Says how much of m is decided by what is read, and in data with a period by the place in it."""
    read = symbols.tolist()
    if not period:
        console.say(f"of the variance of m, the symbol read explains {explained(m, read):.3f}")
        return
    place = (np.arange(len(m)) % period).tolist()
    both = explained(m, list(zip(read, place, strict=True)))
    console.say(
        f"of the variance of m, the symbol read explains {explained(m, read):.3f}, its place among {period} {explained(m, place):.3f}, "
        f"both {both:.3f}"
    )
    console.say(f"mean m by place: {' '.join(f'{m[start::period].mean():.2f}' for start in range(min(period, len(m))))}")


def _mask(trained: Trained, config: VariableConfig, m: Float[np.ndarray, "t k"], options: Scheduled) -> Float[np.ndarray, "t c"] | None:
    """The soft mask of the last components, in networks of one layer."""
    if config.layers > 1 or not options.components:
        return None
    sharpness = jax.tree.leaves(trained.variables["settings"])[0]
    return np.asarray(soft_mask(sharpness, config.epsilon, jnp.asarray(m), config.size))[:, -options.components :]


def show_hard(options: Hard, trained: Trained, console: Console) -> None:
    """Whatever mask the run was evaluated with; both read the whole of each part. `hard.json` has all figures."""
    run, config = trained.run, scheduler_of(trained)
    found = {}
    for mode in ("soft", "hard"):
        network = replace(config, evaluation=mode)
        model = network.build(run.task.input_size, run.task.output_size, run.task.reads)
        found[mode] = trained.scores(model, trained.variables)
    rows = [[mode, split, *_row(figures)] for mode, splits in found.items() for split, figures in splits.items()]
    console.table(["mask", "part", *_COLUMNS.values()], rows)
    write_json(options.run / "hard.json", found)


_COLUMNS = {
    "loss": "loss",
    "agreement": "same symbol",
    "output_distance": "distance of outputs",
    "proportion": "mean m",
    "active": "updated",
    "multiplications": "multiplications",
}


def _row(figures: Mapping[str, float]) -> list[str]:
    return [f"{figures[name]:.4f}" if name in figures and figures[name] < 100 else f"{figures.get(name, np.nan):,.0f}" for name in _COLUMNS]


def show_timing(options: Timed, trained: Trained, console: Console) -> Path:
    """Ratios are to the unit with constant computation at the same size, within this run. `timing.json` has every round."""
    config, read = scheduler_of(trained), read_schedule(trained, "valid", options.steps)
    if config.layers > 1:
        raise UsageError(f"{options.run} holds a {config.label}: steps by blocks are for one layer")
    network, params = trained.recurrent, trained.variables["params"]["recurrent"]
    xs = trained.seen(trained.variables, jnp.asarray(read.symbols)[:, None])
    own = cell_params(params, network), initial_carry(params, network, 1)
    found = time_steps(config.cell, *own, xs, options.proportions, count=options.blocks, rounds=options.rounds)
    unit = found[0]
    rows = [_timing_row(one, unit) for one in found]
    console.table(["contender", "mean m", "multiplications", "of the unit's", "µs a step (least to most)", "of the unit's"], rows)
    write_json(options.run / "timing.json", {"model": config.label, "rows": [one._asdict() for one in found]})
    return timing_figure(found, options.figures / "timing.png", config.label)


def _timing_row(one: Timing, unit: Timing) -> list[str]:
    median, of_unit = np.median(one.microseconds), np.median(unit.microseconds)
    return [
        one.name,
        "" if one.proportion is None else f"{one.proportion:.3f}",
        f"{one.multiplications:,.0f}",
        f"{one.multiplications / unit.multiplications:.3f}",
        f"{median:.1f} ({min(one.microseconds):.1f} to {max(one.microseconds):.1f})",
        f"{median / of_unit:.3f}",
    ]


def timing_figure(timings: Sequence[Timing], path: Path, title: str) -> Path:
    """Draws the share of the unit's time and of its multiplications over m, as a PNG."""
    unit, blocks = timings[0], sorted((one for one in timings if one.name.startswith("blocks")), key=lambda one: one.proportion or 0)
    m = np.array([one.proportion for one in blocks])
    with png(path) as figure:
        axes = figure.subplots()
        axes.plot(m, [np.median(one.microseconds) / np.median(unit.microseconds) for one in blocks], "o-", label="time of a step")
        axes.plot(m, [one.multiplications / unit.multiplications for one in blocks], "s--", label="multiplications")
        axes.set(xlabel="mean m", ylabel="share of the unit's", ylim=(0, None))
        axes.set_title(title)
        axes.legend()
    return path


COMMANDS: Commands = {
    "schedule": (Scheduled, show_schedule),
    "hard": (Hard, show_hard),
    "timing": (Timed, show_timing),
}


def train_or_inspect(experiment: Experiment[Any], arguments: Sequence[str] | None = None, further: Commands | None = None) -> None:
    """As `lrpt.cli.sampling.run_or_sample`; with a name in `COMMANDS`, or in `further`, as the first argument that command instead."""
    words, commands = list(sys.argv[1:] if arguments is None else arguments), {**COMMANDS, **(further or {})}
    if not words or words[0] not in commands:
        run_or_sample(experiment, words)
    else:
        inspect(commands, words, f"python -m experiments.{experiment.name}")
