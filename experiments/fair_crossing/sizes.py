"""Sizes of networks for a fair comparison: equal numbers of parameters by exact search, or equal time per update by measurement."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from lrpt.analysis.budgets import closest_storage, parameters_of, quadratic
from lrpt.cells import CELLS
from lrpt.errors import UsageError
from lrpt.networks.configuration import TiedStorageConfig
from lrpt.networks.counting import count
from lrpt.networks.sequence_model import ModelConfig
from lrpt.parametrizations import FORMS, MatrixConfig
from lrpt.specs import MatrixSpec

WIDEST = 2048
"""Width at which a search ends."""

CLOSE = 0.03
"""Difference of the time of an update from that of the reference, as a share of it, below which a search ends."""


class Size(NamedTuple):
    """Size of a network.

    Attributes:
      width: of the state.
      storage: sizes of the recurrent matrices.
      parameters: number of parameters of the network.
      time: time of an update, over that of the reference; None if it was not measured.
    """

    width: int
    storage: MatrixConfig
    parameters: int
    time: float | None = None


class Frame(NamedTuple):
    """The common part of all networks of a cell on one task.

    Attributes:
      model: a network with dense matrices, of any width.
      input_size, output_size: of the task.
      share: parameters of a structured matrix, as a share of those of a dense one.
    """

    model: ModelConfig
    input_size: int
    output_size: int
    share: float

    def sized(self, size: Size) -> ModelConfig:
        """Return the network of a size."""
        stored = size.storage
        matrices = TiedStorageConfig(stored.kind, stored.rank, stored.blocks, stored.density)
        return replace(self.model, size=size.width, matrices=matrices)

    def sizes(self, kind: str) -> Callable[[int], Size]:
        """Return a function from the width to the size at that width, whose matrices have the share of parameters that is closest."""
        full = quadratic(lambda width: count(self.sized(Size(width, MatrixConfig(), 0)), self.input_size, self.output_size).true)

        def at(width: int) -> Size:
            specs = self._matrices(width)
            target = max(1, round(self.share * width * width))
            storage = MatrixConfig() if kind == "dense" else closest_storage(kind, MatrixSpec(width, width, "recurrent"), target)
            saved = sum(spec.n_in * spec.n_out - parameters_of(spec, storage) for spec in specs)
            return Size(width, storage, full(width) - saved)

        return at

    def _matrices(self, width: int) -> list[MatrixSpec]:
        config = replace(self.model, size=width)
        inputs = config.embedding_width or self.input_size
        leaves = jax.tree.leaves(config.stacked_cell.template(config.cell_spec(inputs)))
        return [leaf for leaf in leaves if isinstance(leaf, MatrixSpec) and leaf.role == "recurrent"]


SHARES = 1.25, 1.5, 2.0
"""Factors by which the share of parameters may differ from what was asked for. A wider one is used where no width fits the narrower."""


def fits(frame: Frame, size: Size, within: float = SHARES[0]) -> bool:
    """Return whether the matrices of a size have the share of parameters that was asked for, within a factor.

    Blocks divide few widths, so that most widths have no block structure of that share.
    """
    kind = size.storage.kind
    if kind == "dense" or not FORMS[kind].settings:
        return True
    share = parameters_of(MatrixSpec(size.width, size.width, "recurrent"), size.storage) / size.width**2
    return frame.share / within <= share <= frame.share * within


def at_parameters(frame: Frame, kind: str, budget: int) -> Size:
    """Find the size whose number of parameters is closest to a budget, of all widths with the share of parameters that was asked for.

    If none of them is within a tenth of the budget, widths whose share differs more are tried, too.

    Raises:
      UsageError: no network is within a tenth of the budget.
    """
    at = frame.sizes(kind)
    for within in SHARES:
        found = _closest(frame, at, budget, within)
        if found is not None and abs(found.parameters - budget) <= budget / 10:
            return found
    raise UsageError(
        f"no {frame.model.cell} with {kind} matrices has about {budget} parameters: choose another --budget, --share or parametrization"
    )


def _closest(frame: Frame, at: Callable[[int], Size], budget: int, within: float) -> Size | None:
    found = None
    for width in range(2, WIDEST):
        size = at(width)
        if not fits(frame, size, within):
            continue
        if found is None or abs(size.parameters - budget) < abs(found.parameters - budget):
            found = size
        if size.parameters > 2 * budget:
            break
    return found


def at_time(frame: Frame, kind: str, widths: Sequence[int], measure: Callable[[ModelConfig], float]) -> Size:
    """Find a width at which an update takes as long as that of the reference, but for 3 %, or the closest one.

    If none is within a tenth of it, widths at which the share of parameters differs more are tried, too, as in `at_parameters`.

    Args:
      frame: the network.
      kind: the parametrization.
      widths: widths to choose from, ascending. Time is taken to increase with the width.
      measure: returns the time of an update, over that of the reference.

    Raises:
      UsageError: no width fits the parametrization and the share.
    """
    all_sizes = list(map(frame.sizes(kind), widths))
    measured: list[Size] = []
    for within in SHARES:
        _search([size for size in all_sizes if fits(frame, size, within)], measured, lambda size: measure(frame.sized(size)))
        if any(abs(_time(size) - 1) <= 0.1 for size in measured):
            break
    if not measured:
        raise UsageError(f"no width from {widths[0]} to {widths[-1]} has {kind} matrices of that share: choose another --share")
    return min(measured, key=lambda size: abs(math.log(_time(size))))


def _search(sizes: Sequence[Size], measured: list[Size], measure: Callable[[Size], float]) -> None:
    """Measure sizes, in ascending order of their widths, until one is close, and append them to those that were measured before.

    The search narrows an interval of widths. Its next guess assumes that time is a power of the width between two measured widths, and
    proportional to the width outside of them.
    """
    for size in measured:
        sizes = _beyond(sizes, size)
    while sizes and not any(abs(_time(size) - 1) < CLOSE for size in measured):
        size = sizes[_guess(sizes, measured)]
        measured.append(size._replace(time=measure(size)))
        sizes = _beyond(sizes, measured[-1])


def _beyond(sizes: Sequence[Size], measured: Size) -> list[Size]:
    """Return the wider sizes if an update of the measured size is too short, and the narrower ones if it is too long."""
    return [size for size in sizes if (size.width > measured.width) == (_time(measured) < 1) and size.width != measured.width]


def _guess(sizes: Sequence[Size], measured: Sequence[Size]) -> int:
    """Return the place of the size to measure next, the middle one first."""
    if not measured:
        return len(sizes) // 2
    ordered = sorted(measured, key=lambda size: size.width)
    times, widths = ([math.log(value(size)) for size in ordered] for value in (_time, lambda size: size.width))
    if times[0] < 0 < times[-1]:
        width = float(np.interp(0, times, widths))
    else:
        width = widths[-1] - times[-1] if times[-1] < 0 else widths[0] - times[0]
    return min(range(len(sizes)), key=lambda place: abs(math.log(sizes[place].width) - width))


def _time(size: Size) -> float:
    assert size.time is not None
    return size.time


def frame_of(cell: str, initial: Any, input_size: int, output_size: int, depth: int, share: float) -> Frame:
    """Return what all networks of a cell have in common on a task."""
    model = ModelConfig(cell, 2, depth if CELLS[cell].deep else 1, matrices=TiedStorageConfig("dense"), initial=initial)
    return Frame(model, input_size, output_size, share)


def widths_about(width: int) -> Iterator[int]:
    """Yield widths from an eighth to eight times a width, at most six per cent apart."""
    found = max(4, width // 8)
    while found <= 8 * width:
        yield found
        found = max(found + 1, math.floor(found * 1.06))
