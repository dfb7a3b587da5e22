"""The table of everything under test: every cell with every parametrization.

A new name in `CELLS` or `PARAMETRIZATIONS` is a row by itself; a new cell needs its loop in `tests/oracles.py`. Cells do not see how their
matrices are stored, so the fast rows have every parametrization in a GRU, and the first three in every cell. Rows of all others are slow.
"""

import dataclasses
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from lrpt.cells import CELLS, Cell, CellSpec
from lrpt.matrices import ROW_AXIS, Dense, LowRank
from lrpt.networks.sequence_model import ModelConfig
from lrpt.parametrizations import FORMS, PARAMETRIZATIONS, MatrixConfig, Parameters
from lrpt.pytrees import register_fields
from lrpt.recurrence import BY_RULE, recur
from lrpt.specs import MatrixSpec

SIZE, RANK, BLOCKS, DENSITY, INPUT_SIZE, STEPS, BATCH = 6, 2, 2, 0.5, 3, 6, 4
SPEC = CellSpec(INPUT_SIZE, SIZE, depth=2)
SIZES = {"blocks": BLOCKS, "density": DENSITY}

IN_EVERY_CELL = ("dense", "low_rank", "low_rank_plus_diagonal")
FAST_KINDS = [kind for kind in PARAMETRIZATIONS if not kind.endswith("_plus_diagonal") or kind in IN_EVERY_CELL]
"""Parametrizations without the sums, which differ from each other in nothing that a cell or loop could see."""
every_kind_of_matrix = pytest.mark.parametrize(
    "kind", [kind if kind in FAST_KINDS else pytest.param(kind, marks=pytest.mark.slow) for kind in PARAMETRIZATIONS]
)


def width_of_input(cell):
    """Return the width that a cell's inputs must have; if it takes any, one that differs from the state's."""
    return (CELLS[cell].input_size or (lambda _: INPUT_SIZE))(SPEC)


class Row(NamedTuple):
    """A cell and one way to store its matrices."""

    cell: str
    parametrization: str
    tied: bool = False
    weight_norm: bool = False

    def __str__(self):
        return "-".join([self.cell, self.parametrization, *["tied"] * self.tied, *["weight_norm"] * self.weight_norm])

    def config(self, **changes):
        return ModelConfig(
            **{"size": SIZE, "depth": SPEC.depth if CELLS[self.cell].deep else 1, "rank": RANK, **SIZES, **self._asdict(), **changes}
        )


def can_be_tied(parametrization):
    return parametrization in FORMS and bool(FORMS[parametrization].shared)


def has_rows(parametrization):
    """Say whether weight normalization finds rows in it."""
    spec = MatrixSpec(SIZE, SIZE, "recurrent")
    return parametrization in FORMS and bool(
        FORMS[parametrization].arrays("a", spec, MatrixConfig(parametrization, RANK, **SIZES)).keys() & ROW_AXIS.keys()
    )


def rows_of(cell):
    """Return the rows of a cell: every combination for the GRU. Cells do not see tying and weight norm, so others have them in one row."""
    if not CELLS[cell].has_recurrent_matrices:
        return [Row(cell, "dense"), Row(cell, "dense", weight_norm=True)]
    if cell != "gru":
        return [*(Row(cell, kind) for kind in IN_EVERY_CELL), Row(cell, "low_rank_plus_diagonal", tied=True, weight_norm=True)]
    return [
        Row(cell, kind, tied, weight_norm)
        for kind in FAST_KINDS
        for tied in (False, True)[: 1 + can_be_tied(kind)]
        for weight_norm in (False, True)[: 1 + has_rows(kind)]
    ]


ROWS = [row for cell in CELLS for row in rows_of(cell)]
SLOW_ROWS = [
    Row(cell, kind) for cell in CELLS if CELLS[cell].has_recurrent_matrices for kind in PARAMETRIZATIONS if Row(cell, kind) not in ROWS
]
PLAIN_ROWS = [row for row in ROWS if not row.tied and not row.weight_norm]
LAST_PLAIN_ROW = {row.cell: row for row in PLAIN_ROWS if row.parametrization in IN_EVERY_CELL}  # low-rank plus diagonal
FEW_ROWS = [row for row in ROWS if row.cell == "gru" or row is LAST_PLAIN_ROW[row.cell]]

KINDS_OF_STATE = {str(CELLS[row.cell].carry(SPEC)): row for row in reversed(LAST_PLAIN_ROW.values())}  # all that a loop sees of a cell

SLOW = [pytest.param(row, marks=pytest.mark.slow) for row in SLOW_ROWS]
every_row = pytest.mark.parametrize("row", [*ROWS, *SLOW], ids=str)
FAST_CELLS = ("gru", "lstm", "elman", "rhn", "unitary", "lru", "grid_lstm", "vcgru")
"""One cell of each kind; the fast tier compares every cell with its oracle, and these in every other way, too."""

FEW_FAST = [row if row in FEW_ROWS and row.cell in FAST_CELLS else pytest.param(row, marks=pytest.mark.slow) for row in ROWS]
every_row_but_most_of_them_slow = pytest.mark.parametrize("row", FEW_FAST, ids=str)
every_row_and_some_more_slow = pytest.mark.parametrize("row", [*FEW_FAST, *SLOW[::11]], ids=str)  # every new kind with two cells
every_cell_and_every_row_of_the_gru = pytest.mark.parametrize("row", FEW_ROWS, ids=str)
every_kind_of_state = pytest.mark.parametrize("row", KINDS_OF_STATE.values(), ids=str)
every_cell = pytest.mark.parametrize("cell", CELLS)


def by_name(tree):
    """Return the leaves of a tree by their paths, 'update.bias'."""
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def doubled(step):
    """Return a cell with twice the outputs of another one, so that no output is a part of its state."""

    def twice(params, carry, x):
        carry, (y, info) = step(params, carry, x)
        return carry, (2 * y, info)

    return twice


def cell_without_a_state(state):
    """Return a cell whose output depends on its input alone, with `state` in place of a state: () or None."""

    def step(params, carry, x):
        return carry, (jax.numpy.tanh(params["a"].apply(x)), ())

    return Cell(step, lambda spec: {"a": MatrixSpec(spec.input_size, spec.size, "input")}, carry=lambda spec: state)


@register_fields
@dataclasses.dataclass(frozen=True)
class Tripled(LowRank):
    """A matrix that is applied in another way than multiplied out."""

    def apply(self, v):
        return 3 * super().apply(v)


class Network(NamedTuple):
    """Hold a cell with parameters, a state to start from, and inputs (t, b, m)."""

    cell: Cell
    template: Any
    params: Any
    carry: Any
    xs: Any

    def operators(self):
        """Return (name, matrix or bias) in the order of the template: ('update.input', Dense(...))."""
        return list(zip(by_name(self.template), jax.tree.structure(self.template).flatten_up_to(self.params), strict=True))

    def replace_operators(self, function):
        """Return the same network with `function(specification, operator)` for each operator."""
        return self._replace(params=jax.tree.map(function, self.template, self.params))

    def dense(self):
        """Return the same network with full matrices."""
        return self.replace_operators(lambda spec, op: Dense(op.to_dense()) if isinstance(spec, MatrixSpec) else op)

    def arrays(self):
        """Full matrices, biases and the arrays of other operators as float64, by name."""
        return {name: np.asarray(*jax.tree.leaves(op), np.float64) for name, op in self.dense().operators()}


def parameters_module(row, carry_bias=1.0, input_size=None):
    size = input_size or width_of_input(row.cell)
    template = CELLS[row.cell].template(dataclasses.replace(SPEC, input_size=size, carry_bias=carry_bias))
    recurrent = MatrixConfig(row.parametrization, RANK, row.tied, row.weight_norm, **SIZES)
    return template, Parameters(template, recurrent, MatrixConfig(weight_norm=row.weight_norm))


@cache
def stored_parameters(row, seed=0, input_size=None):
    """Draw the parameters that the row's Flax module owns. None is small or zero, as they are at the start of training."""
    _, module = parameters_module(row, input_size=input_size)
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(module.init, jax.random.key(0))
    return jax.tree.map(lambda a: (0.7 * rng.standard_normal(a.shape)).astype(np.float32), shapes)


@cache
def network(row, seed=0, carry_bias=1.0, input_size=None):
    """Make the row ready to run. Biases are their start values and noise."""
    template, module = parameters_module(row, carry_bias, input_size)
    cell = CELLS[row.cell]
    rng = np.random.default_rng(seed + 1)
    carry = jax.tree.map(lambda n: _normal(rng, BATCH, n), cell.carry(SPEC))
    xs = _normal(rng, STEPS, BATCH, input_size or width_of_input(row.cell))
    raw = Network(cell, template, module.apply(stored_parameters(row, seed, input_size)), carry, xs)

    def shifted(spec, op):
        return jax.tree.map(lambda a: jax.numpy.asarray(a + getattr(spec, "initial", 0)), op)

    return raw.replace_operators(shifted)


def _normal(rng, *shape):
    return jax.numpy.asarray(rng.standard_normal(shape), jax.numpy.float32)


@partial(jax.jit, static_argnames=("cell", "loop"))
def run(cell, params, carry, xs, loop="plain"):
    """Return (last carry, (outputs, gates)) of every step."""
    return recur(cell.step, params, carry, xs, outputs="info", loop=loop)


def weighted_sum(tree):
    """Return a scalar that every number of a tree moves by another amount."""
    return sum((a * jax.numpy.cos(jax.numpy.arange(a.size, dtype=a.dtype)).reshape(a.shape)).sum() for a in jax.tree.leaves(tree))


@partial(jax.jit, static_argnames=("cell", "loop", "tuning"))
def gradients(cell, params, carry, xs, loop="plain", tuning=BY_RULE):
    """Return ((loss, outputs), gradients to params, carry and xs)."""

    def loss(params, carry, xs):
        carry, ys = recur(cell.step, params, carry, xs, loop=loop, tuning=tuning)
        return weighted_sum((carry, ys)), (carry, ys)

    return jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True)(params, carry, xs)


def assert_close(actual, expected, rtol=1e-5, atol=1e-6):
    """Check that trees have equal shapes and nearly equal numbers. `atol` is relative to an array's largest number if that exceeds 1."""

    def check(actual, expected):
        actual, expected = np.asarray(actual), np.asarray(expected)
        np.testing.assert_allclose(actual, expected, rtol, atol * max(1, np.abs(expected).max(initial=0)))

    jax.tree.map(check, actual, expected)


def assert_equal(actual, expected):
    """Check that trees have the same numbers to the bit."""
    jax.tree.map(np.testing.assert_array_equal, actual, expected)


def check_slope(loss, gradient, along, eps=1e-4, rtol=1e-7):
    """Check that `loss(step)` along a direction has the slope of the gradient, by central differences of fourth order in float64."""
    slope = sum(np.vdot(g, d) for g, d in zip(jax.tree.leaves(gradient), jax.tree.leaves(along), strict=True))
    expected = (8 * (loss(eps) - loss(-eps)) - (loss(2 * eps) - loss(-2 * eps))) / (12 * eps)
    np.testing.assert_allclose(slope, expected, rtol=rtol)
