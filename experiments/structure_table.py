"""Parametrizations of an n x n matrix: formula, parameters, degrees of freedom, multiplications, and the measured time of a GRU's step.

    python -m experiments.structure_table                             n = 256, all parametrizations with about as many parameters as rank 16
    python -m experiments.structure_table --size 128 --rank 8 --kinds dense monarch circulant

The time is that of a step of a GRU with such recurrent matrices, forward and backward, in the fast loop. It is the shortest of several
rounds, and each round measures every parametrization once, so that other work on the machine disturbs all of them alike. The first time is
that of the loop as networks use it, which multiplies matrices out if that should pay; the second one is of the structured products.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from lrpt.analysis.budgets import closest_storage, parameters_of
from lrpt.analysis.timing import in_turns
from lrpt.cells import CELLS, CellSpec
from lrpt.cli.command import leaving_with_a_line
from lrpt.cli.flags import parse_dataclass
from lrpt.cli.limits import refuse_memory
from lrpt.errors import UsageError, check_at_least, check_choice, check_distinct
from lrpt.matrices import Dense
from lrpt.parametrizations import FORMS, MatrixConfig, Parameters
from lrpt.recurrence import recur
from lrpt.recurrence.materialize import materialized
from lrpt.runs.console import Console
from lrpt.specs import MatrixSpec

MATRICES = 12
"""matrices that a step of a GRU holds: three of the state, three of the inputs, and the gradient of each"""

STATES = 2
"""arrays of all steps: inputs and states"""


@dataclass(frozen=True)
class Options:
    """Flags of the command."""

    kinds: tuple[str, ...] = tuple(FORMS)
    """parametrizations"""
    size: int = 256
    """n: rows and columns of each matrix"""
    rank: int = 16
    """d: every other form but dense gets the size whose number of parameters is closest to that of rank d plus diagonal"""
    batch: int = 20
    """rows of the state"""
    steps: int = 50
    """steps of a sequence"""
    rounds: int = 7
    """measurements of each parametrization, of which the shortest counts"""
    huge: bool = False
    """go on even if the estimate exceeds the limit"""

    def __post_init__(self) -> None:
        check_distinct("kinds", self.kinds)
        for kind in self.kinds:
            check_choice("kinds", kind, FORMS)
        check_at_least(1, self, "size", "rank", "batch", "steps", "rounds")
        if self.rank > self.size:
            raise UsageError(f"rank is {self.rank}, above size, {self.size}: choose one from 1 to {self.size}")
        if not self.huge:
            self._check_memory()

    def _check_memory(self) -> None:
        """Raise a UsageError if a step or a sequence would fill the memory."""
        refuse_memory(f"size is {self.size}: the matrices of a GRU", MATRICES * 4 * self.size**2, "choose a smaller --size")
        sequence = STATES * 4 * self.size * self.batch * self.steps
        refuse_memory(f"batch is {self.batch} and steps is {self.steps}: a sequence", sequence, "choose fewer --steps or a smaller --batch")

    def storage(self, kind: str) -> MatrixConfig:
        """Return the sizes of a parametrization."""
        spec = MatrixSpec(self.size, self.size, "recurrent")
        return closest_storage(kind, spec, parameters_of(spec, MatrixConfig("low_rank_plus_diagonal", self.rank)))


def step_of(options: Options, storage: MatrixConfig, materialize: str) -> tuple[Callable[[], Any], bool]:
    """Return a function that computes value and gradient over a sequence, and whether matrices are multiplied out."""
    cell, spec = CELLS["gru"], CellSpec(options.size, options.size)
    owner = Parameters(cell.template(spec), storage, MatrixConfig())
    stored = owner.init(jax.random.key(0))
    xs = 0.1 * jax.random.normal(jax.random.key(1), (options.steps, options.batch, options.size))
    start = jnp.zeros((options.batch, options.size))

    def full(stored: Any) -> Any:
        return materialized(owner.apply(stored), materialize, options.steps * options.batch)

    @jax.jit
    @jax.value_and_grad
    def loss(stored: Any) -> Any:
        return jnp.sum(recur(cell.step, full(stored), start, xs, loop="fast", outputs="last")[1])

    return lambda: jax.block_until_ready(loss(stored)), isinstance(full(stored).update.recurrent, Dense)


def rows(options: Options) -> list[list[str]]:
    """Measure every parametrization, and return the rows of the table."""
    spec = MatrixSpec(options.size, options.size, "recurrent")
    storages = {kind: options.storage(kind) for kind in options.kinds}
    calls: dict[tuple[str, str], Callable[[], Any]] = {}
    multiplied_out = {}
    for kind, storage in storages.items():
        for choice in ("auto", "never"):
            calls[kind, choice], multiplied_out[kind, choice] = step_of(options, storage, choice)
            calls[kind, choice]()  # compiles
    seconds = in_turns(calls, options.rounds)
    found = []
    for kind, storage in storages.items():
        arrays = FORMS[kind].arrays("update", spec, storage)
        matrix: Any = FORMS[kind].matrix("update", spec, storage, {field: jnp.ones(stored.shape) for field, stored in arrays.items()})
        work = matrix.work()
        times = [f"{1e6 * min(seconds[kind, choice]) / options.steps:.0f}" for choice in ("auto", "never")]
        times[0] += " (multiplied out)" if multiplied_out[kind, "auto"] and kind != "dense" else ""
        sizes = ", ".join(f"{setting} {getattr(storage, setting):g}" for setting in FORMS[kind].settings)
        counts = [parameters_of(spec, storage), matrix.degrees_of_freedom, work.products + work.elementwise]
        found.append([kind, sizes, *(f"{count:,}" for count in counts), *times])
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table. Map errors to one line and an exit status."""
    console = Console()
    with leaving_with_a_line(console):
        about = "Count and measure every parametrization of a square matrix."
        options = parse_dataclass(Options, arguments, "python -m experiments.structure_table", about, Options())
        columns = ["parametrization", "sizes", "parameters", "degrees of freedom", "multiplications", "microseconds a step", "structured"]
        title = f"{options.size} x {options.size}, GRU, {options.batch} rows, forward and backward"
        console.table(columns, rows(options), title)


if __name__ == "__main__":
    main()
