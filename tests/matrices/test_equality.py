"""Matrices compare by identity, and are pytrees and keys all the same."""

from dataclasses import is_dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lrpt.matrices
from lrpt.cells import Gate
from lrpt.matrices import Bias, Dense, Sparse, Sum

CLASSES = [kind for kind in vars(lrpt.matrices).values() if isinstance(kind, type) and is_dataclass(kind)]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_class_compares_by_identity(kind):
    assert kind.__eq__ is object.__eq__
    assert kind.__hash__ is object.__hash__


def test_matrices_of_arrays_are_compared_and_found():
    """The generated method of a dataclass would ask for the truth value of an array."""
    a, b = Dense(jnp.ones((2, 3))), Dense(jnp.ones((2, 3)))
    assert a == a
    assert a != b
    assert [b, a].index(a) == 1
    assert {a: "a", b: "b"}[b] == "b"
    gate = Gate(a, b, Bias(jnp.ones(3)))
    assert gate == Gate(*gate)
    assert gate != gate._replace(input=b)
    assert jax.tree.all(jax.tree.map(jnp.array_equal, a, b))


def test_matrices_are_compared_while_they_are_traced():
    @jax.jit
    def applied(one, other, v):
        assert one == one
        assert one != other
        return one.apply(v) + other.apply(v)

    kernel = jnp.ones((2, 3))
    np.testing.assert_array_equal(applied(Dense(kernel), Dense(kernel), jnp.ones(2)), [4, 4, 4])


def test_structures_still_compare_static_fields():
    one, other = Sparse(jnp.ones((4, 2)), 6, 1), Sparse(jnp.zeros((4, 2)), 6, 1)
    assert jax.tree.structure(Sum((one,))) == jax.tree.structure(Sum((other,)))
    assert jax.tree.structure(one) != jax.tree.structure(Sparse(jnp.ones((4, 2)), 6, 2))
    compiled = jax.jit(lambda matrix: matrix.to_dense())
    compiled(one)
    compiled(other)
    assert compiled._cache_size() == 1
    assert not np.array_equal(compiled(Sparse(one.entries, 6, 2)), compiled(one))


def test_a_matrix_may_be_a_static_argument():
    matrix = Dense(jnp.ones((2, 3)))

    @partial(jax.jit, static_argnums=0)
    def applied(matrix, v):
        return matrix.apply(v)

    np.testing.assert_array_equal(applied(matrix, jnp.ones(2)), [2, 2, 2])
