"""Programs of `jax.export` that take and return parameters, states and matrices of this library are written to files and read again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import lrpt.interop.serialization  # noqa: F401  # registers the classes
from lrpt.cells import CELLS, CellSpec
from lrpt.matrices import Dense, LowRank, Sparse, Sum
from lrpt.parametrizations import MatrixConfig, Parameters

N, ROWS = 8, 3


def roundtrip(function, *arguments):
    pytest.importorskip("flatbuffers")
    content = export.export(jax.jit(function))(*arguments).serialize()
    return export.deserialize(content).call(*arguments)


@pytest.mark.parametrize("name", [name if name in ("lstm", "vcgru") else pytest.param(name, marks=pytest.mark.slow) for name in CELLS])
def test_one_step_of_every_cell(name):
    cell = CELLS[name]
    spec = CellSpec(cell.input_size(CellSpec(N, N)) if cell.input_size else 5, N)
    owner = Parameters(cell.template(spec), MatrixConfig("low_rank_plus_diagonal", 2), MatrixConfig("dense"))
    params, _ = owner.init_with_output(jax.random.key(0))
    carry = jax.tree.map(lambda width: jnp.ones((ROWS, width)), cell.carry(spec))
    x = jnp.ones((ROWS, spec.input_size))
    found = roundtrip(cell.step, params, carry, x)
    expected = cell.step(params, carry, x)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


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
