"""Programs of `jax.export` that take and return parameters, states and matrices of this library are written to files and read again."""

from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import serialization
from jax import export

import lrpt.interop.serialization  # registers the classes
from lrpt.cells import CELLS, CellSpec, ConditionalInput, DepthStream, LSTMCarry, conditional_cell
from lrpt.cells.highway import highway, highway_template
from lrpt.errors import UsageError
from lrpt.matrices import Dense, LowRank, Sparse, Sum
from lrpt.networks.protocol import Start
from lrpt.optim import clip_by_norm_or_shrink
from lrpt.parametrizations import FORMS, MatrixConfig, init_parameters
from lrpt.pytrees import register_fields

N, ROWS = 8, 3


def roundtrip(function, *arguments):
    pytest.importorskip("flatbuffers")
    content = export.export(jax.jit(function))(*arguments).serialize()
    return export.deserialize(content).call(*arguments)


def parameters_of(template):
    return init_parameters(jax.random.key(0), template, MatrixConfig("low_rank_plus_diagonal", 2))


def assert_same_after_roundtrip(function, *arguments):
    found, expected = roundtrip(function, *arguments), function(*arguments)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [name if name in ("lstm", "vcgru") else pytest.param(name, marks=pytest.mark.slow) for name in CELLS])
def test_one_step_of_every_cell(name):
    cell = CELLS[name]
    spec = CellSpec(cell.input_size(CellSpec(N, N)) if cell.input_size else 5, N)
    carry = jax.tree.map(lambda width: jnp.ones((ROWS, width)), cell.carry(spec))
    assert_same_after_roundtrip(cell.step, parameters_of(cell.template(spec)), carry, jnp.ones((ROWS, spec.input_size)))


def test_one_step_of_the_conditional_cell():
    cell, spec = conditional_cell(3), CellSpec(5, N)
    carry = jax.tree.map(lambda width: jnp.ones((ROWS, width)), cell.carry(spec))
    x = ConditionalInput(jnp.zeros(ROWS, int), jnp.arange(ROWS), jnp.arange(ROWS) > 0)
    assert_same_after_roundtrip(cell.step, parameters_of(cell.template(spec)), carry, x)


def test_one_highway_layer():
    assert_same_after_roundtrip(highway, parameters_of(highway_template(4)), jnp.ones((ROWS, 4)))


def test_the_stream_between_layers_of_a_grid_lstm():
    assert_same_after_roundtrip(lambda stream: stream, DepthStream(jnp.ones((ROWS, N)), jnp.zeros((ROWS, N))))


@pytest.mark.parametrize(
    "matrix",
    [
        Sum((LowRank(jnp.ones((2, N)), jnp.ones((2, N))), Dense(jnp.eye(N)))),
        Sparse(jnp.arange(2.0 * N).reshape(N, 2), N, seed=3),
    ],
    ids=["sum", "sparse"],
)
def test_matrices_with_their_static_fields(matrix):
    v = jnp.arange(float(N))[None]
    np.testing.assert_allclose(roundtrip(lambda own, v: own.apply(v), matrix, v), matrix.apply(v), rtol=1e-6)
    again = roundtrip(lambda own: own, matrix)
    assert jax.tree.structure(again) == jax.tree.structure(matrix)


def test_the_start_of_a_sequence_that_continues_another_one():
    assert_same_after_roundtrip(lambda start: start, Start(LSTMCarry(jnp.ones((ROWS, N)), jnp.zeros((ROWS, N))), jnp.arange(ROWS) > 0))


def test_the_state_of_an_optimizer_that_recovers():
    rule, params = clip_by_norm_or_shrink(), {"w": jnp.ones(3)}
    found, state = roundtrip(rule.update, {"w": jnp.full(3, jnp.nan)}, rule.init(params), params)
    assert (type(state).__name__, int(state.recoveries)) == ("ShrinkState", 1)
    np.testing.assert_allclose(found["w"], 0.1, rtol=1e-6)


def bound(name, kind):
    """The parameters of a cell's step: matrices in named tuples."""
    cell = CELLS[name]
    spec = CellSpec(cell.input_size(CellSpec(N, N)) if cell.input_size else 5, N)
    return init_parameters(jax.random.key(0), cell.template(spec), MatrixConfig(kind, 2, blocks=2))


@pytest.mark.parametrize(("name", "kind"), [*((name, "low_rank_plus_diagonal") for name in CELLS), *(("gru", kind) for kind in FORMS)])
def test_flax_writes_and_reads_trees_with_matrices(name, kind):
    params = bound(name, kind)
    blank = jax.tree.map(jnp.zeros_like, params)
    found = serialization.from_bytes(blank, serialization.to_bytes(params))
    assert jax.tree.structure(found) == jax.tree.structure(params)
    jax.tree.map(np.testing.assert_array_equal, found, params)
    state = serialization.to_state_dict(params)
    assert all(isinstance(key, jax.tree_util.DictKey) for path, _ in jax.tree_util.tree_leaves_with_path(state) for key in path)


@pytest.mark.parametrize(("content", "given"), [({"kernel": jnp.eye(2)}, "kernel"), ({}, "nothing"), (jnp.eye(2), "a ArrayImpl")])
def test_a_matrix_of_another_kind_is_one_line(content, given):
    matrix = LowRank(jnp.ones((1, 2)), jnp.ones((1, 2)))
    with pytest.raises(UsageError, match=f"the content has {given} for a LowRank: expected left, right; give the target it was written of"):
        serialization.from_state_dict(matrix, content)


@register_fields
@dataclass(frozen=True, eq=False)
class Own:
    row: jax.Array
    shift: int = field(metadata={"static": True})

    def apply(self, v):
        return jnp.roll(v @ jnp.diag(self.row), self.shift, -1)


def test_a_matrix_of_the_users_is_registered_by_a_function():
    own = Own(jnp.arange(1.0, N + 1), 2)
    with pytest.raises(TypeError):
        serialization.to_bytes({"own": own})
    lrpt.interop.serialization.register_matrix(Own, "mine.Own")
    found = serialization.from_bytes({"own": replace(own, row=jnp.zeros(N))}, serialization.to_bytes({"own": own}))
    np.testing.assert_array_equal(found["own"].apply(jnp.ones(N)), own.apply(jnp.ones(N)))
    assert_same_after_roundtrip(lambda matrix, v: matrix.apply(v), own, jnp.ones((ROWS, N)))
