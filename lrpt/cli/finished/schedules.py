"""Subcommands of experiments with variable computation: trained schedules, and the time and operations they save.

    python -m experiments.variable_computation schedule RUN_DIRECTORY    m_t over the symbols read (Figures 2, 3 and 5)
    python -m experiments.variable_computation hard RUN_DIRECTORY        soft and hard masks in evaluation
    python -m experiments.variable_computation timing RUN_DIRECTORY      time of a step against m, beside counted operations

Source: Jernite et al. 2017. Each subcommand prints a table. Plots are in the figures/ of the run, numbers in its schedule.npz, hard.json
and timing.json. Those of a kept result are in runs/EXPERIMENT/NAME-kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from lrpt.analysis.block_timing import Timing
from lrpt.analysis.plots import saved_figure
from lrpt.analysis.schedules import means_by_symbol, schedule_figure
from lrpt.cells.variable_computation import soft_mask
from lrpt.cli.experiment import Subcommand
from lrpt.cli.finished.run_commands import OnRun, on_run
from lrpt.cli.finished.sampling import SAMPLE
from lrpt.cli.finished.schedule_numbers import ScheduleSummary, both_masks, read_schedule, scheduler_of, step_times, summarize
from lrpt.errors import UsageError, check_at_least
from lrpt.networks.variable_computation import VariableConfig
from lrpt.runs.console import Console
from lrpt.runs.files import write_json
from lrpt.tasks.bits import WIDTH
from lrpt.trained.loading import Loaded


@dataclass(frozen=True)
class Scheduled(OnRun):
    """Print and plot m_t, the share of the state updated at step t, over the beginning of a split."""

    counts = ("length", "shown")

    split: str = "valid"
    """train, valid or test"""
    length: int = 8_000
    """largest number of steps to read"""
    skip: int = 0
    """steps to leave out at the beginning of the plot"""
    shown: int = 200
    """steps in the plot"""
    components: int = 50
    """last components of the state whose mask is plotted (0: none)"""
    lags: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    """lags of the autocorrelation of m_t in steps; a character has 8 bits, plus those of its buffer"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(0, self, "skip", "components")
        if min(self.lags, default=0) < 0:
            raise UsageError(f"lags is {' '.join(map(str, self.lags))}: expected numbers of 0 or more")


@dataclass(frozen=True)
class Hard(OnRun):
    """Print the metrics of every split with soft and with hard masks."""


@dataclass(frozen=True)
class Timed(OnRun):
    """Time a step at batch size 1 on the beginning of the validation split."""

    counts = ("steps", "rounds", "blocks")

    proportions: tuple[float, ...] = (0.1, 0.25, 0.5, 0.75, 1.0)
    """m of the constant schedules to time beside the trained one"""
    steps: int = 200
    """steps of each contender in a round"""
    rounds: int = 9
    """rounds; the table shows medians over them"""
    blocks: int = 8
    """number of block sizes"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(not 0 < m <= 1 for m in self.proportions):
            raise UsageError(f"proportions is {' '.join(map(str, self.proportions))}: expected shares above 0, at most 1")


def names(trained: Loaded, symbols: Sequence[int] | Int[np.ndarray, " t"]) -> list[str]:
    """Return symbols in printable form: line ends and blanks as signs."""
    vocabulary = trained.vocabulary
    signs = {"\n": "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}", " ": "\N{OPEN BOX}"}
    known = [str(number) for number in range(trained.interface.input_size)] if vocabulary is None else vocabulary.symbols
    return [signs.get(known[number], known[number]) for number in symbols]


def show_schedule(options: Scheduled, trained: Loaded, console: Console) -> Path:
    """Print mean m_t by symbol and its autocorrelations. Write 'symbols' and 'proportions' of all steps to `schedule.npz`.

    Raises:
      UsageError: the network has no scheduler or reads vectors, there is no such split, or `skip` leaves out all steps that were read.
    """
    config, schedule = scheduler_of(trained), read_schedule(trained, options.split, options.length)
    symbols, m = schedule
    mean = m.mean(axis=1)
    if options.skip >= len(mean):
        raise UsageError(f"skip is {options.skip}, and {len(mean)} steps were read: choose fewer, or a larger --length")
    options.numbers.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(options.numbers / "schedule.npz", symbols=symbols, proportions=m)
    table = means_by_symbol(mean, names(trained, symbols))
    console.table(
        ["symbol", "mean m", "steps"], [[name, f"{value:.3f}", f"{count:,}"] for name, (value, count) in list(table.items())[:20]]
    )
    found = summarize(trained, schedule, options.lags)
    series = {"autocorrelation of m": found.autocorrelation} | ({"of the bits read": found.of_symbols} if found.of_symbols else {})
    console.table(["lag", *series], [[str(lag), *(f"{one[lag]:+.3f}" for one in series.values())] for lag in found.autocorrelation])
    _explain(found, console)
    console.say(f"mean m {found.mean:.3f} over {found.steps:,} steps of the {options.split} split")
    shown = slice(options.skip, options.skip + options.shown)
    return schedule_figure(
        m[shown],
        names(trained, symbols[shown]),
        options.figures / "schedule.png",
        _mask(trained, config, m[shown], options),
        config.label,
    )


def _explain(found: ScheduleSummary, console: Console) -> None:
    """Print the variance of m that the symbol read explains, and in periodic data the place in the period."""
    shares, period = found.explained, len(found.by_place)
    rest = f", its place among {period} {shares['place']:.3f}, both {shares['both']:.3f}" if period else ""
    console.say(f"of the variance of m, the symbol read explains {shares['symbol']:.3f}{rest}")
    if period:
        console.say(f"mean m by place: {' '.join(f'{mean:.2f}' for mean in found.by_place)}")
    if found.on_characters is not None and period > WIDTH:
        console.say(f"{found.on_characters:.1%} of the operations are on characters, which are {WIDTH / period:.1%} of the steps")


def _mask(trained: Loaded, config: VariableConfig, m: Float[np.ndarray, "t k"], options: Scheduled) -> Float[np.ndarray, "t c"] | None:
    """Return the soft mask of the last components; None for networks of several layers."""
    if config.layers > 1 or not options.components:
        return None
    sharpness = jax.tree.leaves(trained.variables["settings"])[0]
    return np.asarray(soft_mask(sharpness, config.mask.epsilon, jnp.asarray(m), config.size))[:, -options.components :]


def show_hard(options: Hard, trained: Loaded, console: Console) -> None:
    """Print the metrics of each split with a soft and with a hard mask, and write them to `hard.json`."""
    console.say("evaluating all splits with both masks; this takes a minute or more ...")
    found = both_masks(trained)
    _print_masks(found, console)
    write_json(options.numbers / "hard.json", found)


def _print_masks(found: Mapping[str, Mapping[str, Mapping[str, float]]], console: Console) -> None:
    shown = [name for name in _COLUMNS if name in found["soft"]["test"]]
    rows = [[mode, split, *_row(metrics, shown)] for mode, splits in found.items() for split, metrics in splits.items()]
    console.table(["mask", "split", *(_COLUMNS[name] for name in shown)], rows)


_COLUMNS = {
    "loss": "loss",
    "bits_per_character": "bits per character",
    "perplexity": "perplexity",
    "agreement": "same symbol",
    "output_distance": "distance of outputs",
    "proportion": "mean m",
    "active": "updated",
    "multiplications": "multiplications",
}


def _row(metrics: Mapping[str, float], shown: Sequence[str]) -> list[str]:
    return [f"{metrics[name]:.4f}" if metrics[name] < 100 else f"{metrics[name]:,.0f}" for name in shown]


def show_timing(options: Timed, trained: Loaded, console: Console) -> Path:
    """Print times relative to the unit with constant computation of the same size, and what hard masks cost. Write all to `timing.json`."""
    label = scheduler_of(trained).label
    found = step_times(trained, options.proportions, options.steps, options.rounds, options.blocks)
    unit = found[0]
    rows = [_timing_row(one, unit) for one in found]
    console.table(["contender", "mean m", "multiplications", "of the unit's", "µs a step (least to most)", "of the unit's"], rows)
    masks = both_masks(trained)
    console.say("blocks compute what hard masks do:")
    _print_masks(masks, console)
    write_json(options.numbers / "timing.json", {"model": label, "rows": [one._asdict() for one in found], "masks": masks})
    return timing_figure(found, options.figures / "timing.png", label)


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
    """Plot the share of the constant unit's time and multiplications over m."""
    unit, blocks = timings[0], sorted((one for one in timings if one.name.startswith("blocks")), key=lambda one: one.proportion or 0)
    m = np.array([one.proportion for one in blocks])
    with saved_figure(path) as figure:
        axes = figure.subplots()
        axes.plot(m, [np.median(one.microseconds) / np.median(unit.microseconds) for one in blocks], "o-", label="time of a step")
        axes.plot(m, [one.multiplications / unit.multiplications for one in blocks], "s--", label="multiplications")
        axes.set(xlabel="mean m", ylabel="share of the unit's", ylim=(0, None))
        axes.set_title(title)
        axes.legend()
    return path


COMMANDS: Mapping[str, Subcommand] = {
    **SAMPLE,
    "schedule": on_run(Scheduled, show_schedule),
    "hard": on_run(Hard, show_hard),
    "timing": on_run(Timed, show_timing),
}
"""Subcommands of language models with a scheduler."""
