"""Numbers of a trained scheduler: m_t over a text, its summary, both masks, times of steps.

Jernite et al. 2017. Each function takes the result of `lrpt.load`, for a run or a kept result, and prints nothing.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PyTree

from lrpt.analysis.block_timing import Timing, time_steps
from lrpt.analysis.schedule_groups import OTHER, around, bars_and_others, kinds, lengths, repetitions
from lrpt.analysis.schedules import autocorrelation, explained, group_means, means_by_symbol, operations_on
from lrpt.datasets.vocabulary import Vocabulary, WordVocabulary
from lrpt.errors import UsageError, check_choice
from lrpt.networks.protocol import Start
from lrpt.networks.variable_computation import VariableConfig
from lrpt.tasks.bits import WIDTH
from lrpt.tasks.music import holds_melodies, symbols_of
from lrpt.trained.loading import Loaded
from lrpt.training.step import blank_carry

REACH = 6
"""steps before and after the end of a word"""


class ScheduleTrace(NamedTuple):
    """The symbols that a network with a scheduler reads, and how much it computes at each."""

    symbols: Int[np.ndarray, " t"]
    proportions: Float[np.ndarray, "t k"]


class ScheduleSummary(NamedTuple):
    """Numbers of a schedule m_t, the mean over layers.

    Attributes:
      steps: number of symbols read.
      mean: mean of m_t.
      autocorrelation: lag -> autocorrelation of m_t.
      of_symbols: lag -> autocorrelation of the symbols read, if the vocabulary has two (bits); otherwise empty.
      by_place: mean of m_t by the place in the period of the data (bits of a character), empty if they have none.
      explained: share of the variance of m_t that is explained by 'symbol', 'place' and 'both'.
      on_characters: share of the operations, the sum of m^2, at the first eight places of the period, which are the bits of a character.
        The other places are buffer bits. None without a period.
    """

    steps: int
    mean: float
    autocorrelation: dict[int, float]
    of_symbols: dict[int, float]
    by_place: list[float]
    explained: dict[str, float]
    on_characters: float | None


class AroundWords(NamedTuple):
    """Means of a schedule around the ends of words.

    Attributes:
      offsets: steps from the white space that ends a word.
      means: mean of m at each offset.
      control: the same for a schedule that knows the white spaces only: the mean of m on them, and the mean on all other symbols.
      explained: share of the variance of m that the white spaces explain.
      words: number of ends of words.
    """

    offsets: list[int]
    means: list[float]
    control: list[float]
    explained: float
    words: int


def scheduler_of(trained: Loaded) -> VariableConfig:
    """Return the configuration of a run's network.

    Raises:
      UsageError: it has no scheduler.
    """
    config = trained.config.model
    if not isinstance(config, VariableConfig) or not config.has_scheduler:
        raise UsageError(f"{trained.path} holds a run of {config.label}, which has no scheduler: name a run of vcrnn, vcgru or vclstm")
    return config


def read_schedule(trained: Loaded, split: str, length: int) -> ScheduleTrace:
    """Return the first symbols of a split, each with m of the step that reads it.

    Raises:
      UsageError: no such split, or inputs that are no symbols.
    """
    scheduler_of(trained)
    task, model, variables = trained.task, trained.model, trained.variables
    check_choice("split", split, tuple(task.splits))
    part = task.splits[split]
    example = jax.eval_shape(lambda: part.batch(part.arrays, jnp.zeros(1, jnp.int32)))
    if not jnp.issubdtype(example.inputs.dtype, jnp.integer):
        raise UsageError(f"{trained.path} reads vectors: name a run that reads symbols")

    def body(variables: PyTree, arrays: PyTree, carry: PyTree, index: Any) -> tuple[Any, Any]:
        batch = part.batch(arrays, index[None])
        start = Start(carry, index == 0) if task.streams else None
        after, m = model.apply(variables, batch.inputs, batch.mask, start, method="schedule")  # type: ignore[misc]
        counts = jnp.ones_like(batch.inputs, bool) if batch.mask is None else batch.mask
        return (after if task.streams else None), jax.tree.map(lambda rows: rows[0], (batch.inputs, m, counts))

    windows = min(part.size, -(-length // example.inputs.shape[1]))

    @jax.jit
    def read(variables: PyTree, arrays: PyTree) -> Any:
        carry = blank_carry(model, part, variables, arrays, 1) if task.streams else None
        return jax.lax.scan(partial(body, variables, arrays), carry, jnp.arange(windows))[1]

    symbols, m, counts = jax.device_get(read(variables, part.arrays))
    return ScheduleTrace(symbols[counts][:length], m[counts][:length])


def summarize(trained: Loaded, schedule: ScheduleTrace, lags: Sequence[int] = (1, 2, 4, 8, 16, 32)) -> ScheduleSummary:
    """Compute the numbers of a schedule that `read_schedule` has read; lags beyond its end are left out."""
    m, symbols, period = schedule.proportions.mean(axis=1), schedule.symbols, scheduler_of(trained).schedule.lag
    lags = [lag for lag in lags if 0 <= lag < len(m)]
    of_symbols = {lag: autocorrelation(symbols, lag) for lag in lags} if trained.interface.input_size == 2 else {}
    read, place = symbols.tolist(), (np.arange(len(m)) % max(period, 1)).tolist()
    shares = {"symbol": explained(m, read)}
    if period:
        shares |= {"place": explained(m, place), "both": explained(m, list(zip(read, place, strict=True)))}
    by_place = [float(m[start::period].mean()) for start in range(min(period, len(m)))]
    on_characters = operations_on(m, np.asarray(place) < WIDTH) if period else None
    of_m = {lag: autocorrelation(m, lag) for lag in lags}
    return ScheduleSummary(len(m), float(m.mean()), of_m, of_symbols, by_place, shares, on_characters)


def reads_melodies(trained: Loaded) -> bool:
    """Return whether the symbols of a network are notes, rests and bars."""
    return isinstance(trained.vocabulary, WordVocabulary) and "|" in trained.vocabulary.symbols and holds_melodies(trained.vocabulary)


def reads_characters(trained: Loaded) -> bool:
    """Return whether the symbols of a network are characters."""
    return isinstance(trained.vocabulary, Vocabulary) and not isinstance(trained.vocabulary, WordVocabulary)


GROUPS = {"length": lengths, "kind": kinds, "bars": bars_and_others, "repetition": repetitions}


def by_note(trained: Loaded, schedule: ScheduleTrace) -> dict[str, dict[str, tuple[float, int]]]:
    """Compute mean m_t, and the number of steps, by length and kind of note, of a network that `reads_melodies`.

    Source: Jernite et al. 2017, Table 2 and section 5.1.
    """
    known = symbols_of(cast(WordVocabulary, trained.vocabulary))
    sounds, m = [known[number] for number in schedule.symbols], schedule.proportions.mean(axis=1)
    means = {name: means_by_symbol(m, group(sounds)) for name, group in GROUPS.items()}
    return {name: {of: mean for of, mean in found.items() if of != OTHER} for name, found in means.items()}


def around_words(trained: Loaded, schedule: ScheduleTrace, reach: int = REACH) -> AroundWords:
    """Compute mean m_t at each distance from the end of a word, of a network that `reads_characters` (Jernite et al. 2017, section 5.2).

    Args:
      trained: the network.
      schedule: what `read_schedule` has read.
      reach: the largest distance in steps, on both sides.

    Raises:
      UsageError: no end of a word has `reach` steps on both sides.
    """
    blank = np.isin(schedule.symbols, cast(Vocabulary, trained.vocabulary).white_spaces)
    ends, m = blank & ~np.append(True, blank[:-1]), schedule.proportions.mean(axis=1)
    means, control = (around(one, ends, reach).tolist() for one in (m, group_means(m, blank)))
    return AroundWords(list(range(-reach, reach + 1)), means, control, explained(m, blank.tolist()), int(ends.sum()))


def both_masks(trained: Loaded) -> dict[str, dict[str, dict[str, float]]]:
    """Evaluate a network with the soft and with the hard mask: mask -> split -> metrics."""
    config, known = scheduler_of(trained), trained.interface
    networks = {mode: replace(config, evaluation=mode).build(known.input_size, known.output_size, known.reads) for mode in ("soft", "hard")}
    return {mode: trained.evaluate(network) for mode, network in networks.items()}


def step_times(trained: Loaded, proportions: Sequence[float], steps: int, rounds: int, blocks: int) -> list[Timing]:
    """Time a step at batch 1 over the beginning of the validation split: the unit with constant computation first, then by blocks.

    The masks are those of the run: with its sharpness, its threshold and its rounding.

    Args:
      trained: the network.
      proportions: m of constant schedules that are timed beside the trained one.
      steps: number of steps of each contender in a round.
      rounds: turns of each contender.
      blocks: sizes of blocks.

    Raises:
      UsageError: the network has several layers.
    """
    config, read = scheduler_of(trained), read_schedule(trained, "valid", steps)
    if config.layers > 1:
        raise UsageError(f"{trained.path} holds a run of {config.label}: steps by blocks are for one layer")
    _, params, carry, xs = trained.over_time(jnp.asarray(read.symbols)[None])
    mask: dict[str, Any] = {"rounding": config.mask.rounding, "epsilon": config.mask.epsilon}
    return time_steps(config.cell, params, carry, xs, tuple(proportions), **mask, count=blocks, rounds=rounds)
