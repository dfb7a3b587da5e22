"""Schedules of variable computation: how much a network computes at each step, by symbol, and periodicity."""

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int

from lrpt.analysis.plots import saved_figure
from lrpt.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEPS_IN_A_ROW = 100


def autocorrelation(m: Float[np.ndarray, " t"] | Int[np.ndarray, " t"], lag: int) -> float:
    r"""Compute the correlation of a schedule with itself `lag` steps later. It is 1 for a schedule with this period.

    .. math::
        r_k = \frac{\sum_{t} (m_t - \mu)(m_{t+k} - \mu)}{T - k} \Big/ \frac{\sum_t (m_t - \mu)^2}{T}

    Args:
      m: the schedule, or the numbers of the symbols, over T steps. The result is 0 for a constant schedule.
      lag: k, from 0 to below T.

    Raises:
      UsageError: the lag is negative or not below T.
    """
    values = np.asarray(m, np.float64)
    if not 0 <= lag < values.size:
        raise UsageError(f"the lag is {lag}, and the schedule has {values.size} steps: choose fewer")
    if _is_constant(values):
        return 0.0
    values = values - values.mean()
    variance = np.mean(np.square(values))
    return float(np.mean(values[: values.size - lag] * values[lag:]) / variance) if variance > 0 else 0.0


def explained(m: Float[np.ndarray, " t"], groups: Sequence[Hashable]) -> float:
    r"""Compute the share of a schedule's variance between groups of steps: 1 if m depends on the group alone, 0 for a constant schedule.

    .. math::
        \frac{\sum_g n_g (\mu_g - \mu)^2}{\sum_t (m_t - \mu)^2}

    Group g has :math:`n_g` steps with the mean :math:`\mu_g`; :math:`\mu` is the mean of all steps.

    Compare autocorrelations with it: bits of a text are periodic too, and a schedule that depends only on the bit inherits their period.

    Args:
      m: the schedule.
      groups: the group of each step.
    """
    names = {group: i for i, group in enumerate(dict.fromkeys(groups))}
    number = np.array([names[group] for group in groups])
    values = np.asarray(m, np.float64)
    if _is_constant(values):
        return 0.0
    values = values - np.mean(m, dtype=np.float64)
    counts = np.bincount(number)
    between = np.sum(counts * np.square(np.bincount(number, values) / counts))
    total = np.sum(np.square(values))
    return float(between / total) if total > 0 else 0.0


def _is_constant(values: Float[np.ndarray, " t"]) -> bool:
    """Return whether all values are equal. Deviations from their mean would not say so, because the mean is rounded."""
    return bool(np.all(values == values[:1]))


def group_means(m: Float[np.ndarray, " t"], group: Bool[np.ndarray, " t"]) -> Float[np.ndarray, " t"]:
    """Return the control of a schedule: each value of m replaced by the mean of m over the steps in the group, or over those outside."""
    values = np.asarray(m, np.float64)
    inside, outside = (float(values[chosen].mean()) if chosen.any() else 0.0 for chosen in (group, ~group))
    return np.where(group, inside, outside)


def operations_on(m: Float[np.ndarray, " t"], group: Bool[np.ndarray, " t"]) -> float:
    r"""Return the share of a schedule's operations that falls on a group of steps.

    A step takes m^2 of the operations of the whole unit. Work outside of the matrices and in the scheduler is left out.

    .. math::
        \sum_{t \in G} m_t^2 \Big/ \sum_t m_t^2

    Args:
      m: the schedule.
      group: whether each step is in the group G.
    """
    squares = np.square(m, dtype=np.float64)
    return float(np.sum(squares, where=group) / np.sum(squares))


def means_by_symbol(m: Float[np.ndarray, " t"], symbols: Sequence[str]) -> dict[str, tuple[float, int]]:
    """Return the mean of a schedule and the number of occurrences for each symbol, highest mean first."""
    found: dict[str, list[float]] = {}
    for value, symbol in zip(m, symbols, strict=True):
        found.setdefault(symbol, []).append(float(value))
    means = {symbol: (float(np.mean(values)), len(values)) for symbol, values in found.items()}
    return dict(sorted(means.items(), key=lambda item: -item[1][0]))


def schedule_figure(
    proportions: Float[np.ndarray, "t k"],
    symbols: Sequence[str],
    path: str | Path,
    mask: Float[np.ndarray, "t n"] | None = None,
    title: str = "",
) -> Path:
    """Plot m_t above the symbols read, and optionally the mask of some components below (Jernite et al. 2017, Figures 2, 3 and 5).

    Args:
      proportions: m of each step and layer.
      symbols: the symbol read at each step, printed as its label.
      path: the PNG file to write.
      mask: mask values from 0 to 1 of the components to show; the last component is on top.
      title: title of the figure.
    """
    rows = -(-len(symbols) // STEPS_IN_A_ROW)
    panels = 1 + (mask is not None)
    with saved_figure(path, 9.0, 0.5 + rows * (1.1 + 0.8 * (panels - 1))) as figure:
        axes = figure.subplots(rows * panels, 1, squeeze=False)[:, 0]
        for row in range(rows):
            shown = slice(row * STEPS_IN_A_ROW, (row + 1) * STEPS_IN_A_ROW)
            _trace(axes[row * panels], proportions[shown], symbols[shown])
            if mask is not None:
                _map(axes[row * panels + 1], mask[shown])
        axes[0].set_title(title)
    return Path(path)


def _trace(axes: "Axes", proportions: Float[np.ndarray, "t k"], symbols: Sequence[str]) -> None:
    steps = np.arange(len(symbols))
    axes.plot(steps, proportions, drawstyle="steps-mid", linewidth=1)
    axes.set(ylim=(0, 1), ylabel="$m_t$", xlim=(-0.5, STEPS_IN_A_ROW - 0.5))
    axes.set_xticks(steps, symbols, fontsize=6, rotation=90 if max(map(len, symbols)) > 1 else 0)
    axes.tick_params(axis="x", length=0)


def _map(axes: "Axes", mask: Float[np.ndarray, "t n"]) -> None:
    axes.pcolormesh(np.arange(len(mask) + 1) - 0.5, np.arange(mask.shape[1] + 1), mask.T, vmin=0, vmax=1, cmap="Greys")
    axes.grid(visible=False)
    axes.set(xlim=(-0.5, STEPS_IN_A_ROW - 0.5), ylabel="$e_t$", xticks=[], yticks=[])
