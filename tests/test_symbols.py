"""Symbols as inputs: what they stand for, and matrices that know about vectors only."""

from dataclasses import dataclass
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from table import assert_close, weighted_sum

from lrpt.cells import CELLS, CellSpec
from lrpt.errors import UsageError
from lrpt.matrices import Circulant, Dense, Diagonal, LowRank, Sum, SymbolInputs
from lrpt.matrices.rows import over_inputs
from lrpt.networks.sequence_model import ModelConfig
from lrpt.parametrizations import PARAMETRIZATIONS, MatrixConfig, Parameters, Parametrization, init_parameters
from lrpt.pytrees import register_fields
from lrpt.recurrence import LOOPS, Tuning, recur
from lrpt.recurrence.materialize import materialized
from lrpt.symbols import Weighted, as_vectors, check_symbols, codes_of, decode, input_for, is_symbols, is_vectors, select, units_of

SYMBOLS, SIZE, STEPS, BATCH = 6, 4, 7, 3


@register_fields
@dataclass(frozen=True)
class BlockDiagonal:
    """Two blocks (2, n_in / 2, n_out / 2): a matrix of a user's that has never heard of symbols, with nothing but what is asked of it."""

    blocks: jax.Array

    def apply(self, v):
        parts = v.reshape(*v.shape[:-1], 2, -1)
        return jnp.einsum("...ki,kio->...ko", parts, self.blocks).reshape(*v.shape[:-1], -1)

    def to_dense(self):
        return jax.scipy.linalg.block_diag(*self.blocks)


class BlockDiagonalMatrices(Parametrization):
    @nn.compact
    def __call__(self):
        draw = nn.initializers.normal(0.5)
        return {name: BlockDiagonal(self.param(name, draw, (2, s.n_in // 2, s.n_out // 2))) for name, s in self.specs.items()}


def inputs(weighted):
    rng = np.random.default_rng(0)
    symbols = jnp.asarray(rng.integers(0, SYMBOLS, (STEPS, BATCH)))
    return Weighted(symbols, jnp.asarray(rng.choice([0.0, 2.0], (STEPS, BATCH)), jnp.float32)) if weighted else symbols


def blocks_of(dense):
    """The gradient to two blocks from that to the whole matrix."""
    a, b = SYMBOLS // 2, SIZE // 2
    return np.stack([dense[:a, :b], dense[a:, b:]])


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("loop", "store"), [(name, "auto") for name in LOOPS] + [("fast", "boundaries")])
def test_a_matrix_that_knows_vectors_only_stores_the_input_matrices_of_symbols(loop, store, weighted, monkeypatch):
    """Values, and gradients to the blocks, are those of full matrices from which rows are selected."""
    monkeypatch.setitem(PARAMETRIZATIONS, "blocks", BlockDiagonalMatrices)
    cell, spec = CELLS["gru"], CellSpec(SYMBOLS, SIZE)
    owner = Parameters(cell.template(spec), MatrixConfig("low_rank", 2), MatrixConfig("blocks"))
    stored = jax.jit(owner.init)(jax.random.key(0))
    full = Parameters(cell.template(spec), MatrixConfig("low_rank", 2), MatrixConfig())
    gates = stored["params"]["input"]
    dense = {"params": {**stored["params"], "input": {name: {"kernel": BlockDiagonal(b).to_dense()} for name, b in gates.items()}}}

    @partial(jax.jit, static_argnames=("owner", "loop"))
    def results(owner, stored, loop):
        def loss(stored):
            out = recur(
                cell.step, owner.apply(stored), jnp.ones((BATCH, SIZE)), inputs(weighted), loop=loop, tuning=Tuning(chunk=3, store=store)
            )
            return weighted_sum(out), out

        return jax.value_and_grad(loss, has_aux=True)(stored)

    (_, out), gradient = results(owner, stored, loop)
    (_, expected), its_gradient = results(full, dense, "plain")
    assert_close(out, expected, rtol=1e-5)
    of_input, its_input = gradient["params"].pop("input"), its_gradient["params"].pop("input")
    assert_close(gradient, its_gradient, atol=1e-5)
    assert_close(of_input, {name: blocks_of(np.asarray(g["kernel"])) for name, g in its_input.items()}, atol=1e-5)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
def test_symbols_are_vectors_of_the_type_of_their_matrix(dtype):
    row = jnp.arange(4, dtype=dtype)
    y = SymbolInputs(Circulant(row), 4).apply(jnp.array([0, 1]))
    assert y.dtype == dtype
    np.testing.assert_allclose(y.astype(jnp.float32), [[0, 1, 2, 3], [3, 0, 1, 2]], atol=0.02)


@register_fields
@dataclass(frozen=True, eq=False)
class Scaled:
    kernel: jax.Array
    scale: float

    @property
    def shape(self):
        return self.kernel.shape

    def apply(self, v):
        return self.scale * (v @ self.kernel)


def test_symbols_are_vectors_for_a_matrix_that_holds_a_python_number():
    matrix, symbols = Scaled(jnp.arange(6, dtype=jnp.bfloat16).reshape(3, 2), 0.5), jnp.array([2, 0])
    for one in (matrix, SymbolInputs(matrix, 3)):
        y = one.apply(input_for(one, symbols))
        assert y.dtype == jnp.bfloat16
        np.testing.assert_array_equal(y.astype(float), [[2.0, 2.5], [0.0, 0.5]])


def test_such_a_matrix_can_be_multiplied_out(monkeypatch):
    """By 'always' only, as it does not know its costs; rows of the full matrix are then selected."""
    monkeypatch.setitem(PARAMETRIZATIONS, "blocks", BlockDiagonalMatrices)
    template = CELLS["gru"].template(CellSpec(SYMBOLS, SIZE))
    params = init_parameters(jax.random.key(0), template, inputs=MatrixConfig("blocks"))
    assert isinstance(params.update.input, SymbolInputs)
    always, auto = (materialized(params, choice, 10**6) for choice in ("always", "auto"))
    assert isinstance(auto.update.input, SymbolInputs)
    assert isinstance(always.update.input, Dense)
    symbols = jnp.arange(SYMBOLS)
    assert_close(always.update.input.apply(symbols), params.update.input.apply(symbols))


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", ["low_rank_plus_diagonal", "sum_of_blocks"])
def test_every_term_of_a_sum_gets_symbols_as_it_takes_them(kind, loop):
    """A diagonal gets one-hot vectors, low rank selects rows; shapes are square, so that nothing else would tell the two apart."""
    rng = np.random.default_rng(1)
    low_rank = LowRank(*(jnp.asarray(rng.standard_normal((2, SIZE)), jnp.float32) for _ in range(2)))
    diagonal = Diagonal(jnp.asarray(rng.standard_normal(SIZE), jnp.float32))
    blocks = SymbolInputs(BlockDiagonal(jnp.asarray(rng.standard_normal((2, SIZE // 2, SIZE // 2)), jnp.float32)), SIZE)
    matrix = {
        "low_rank_plus_diagonal": Sum((low_rank, diagonal)),
        "sum_of_blocks": Sum((blocks, diagonal)),
    }[kind]
    full = low_rank.to_dense() + diagonal.to_dense() if kind != "sum_of_blocks" else blocks.to_dense() + diagonal.to_dense()
    symbols = jnp.asarray(rng.integers(0, SIZE, (STEPS, SIZE)))

    def step(matrix, h, x):
        h = jnp.tanh(h + matrix.apply(x))
        return h, h

    def loss(matrix, loop):
        return weighted_sum(LOOPS[loop](step, matrix, jnp.zeros((SIZE, SIZE)), symbols))

    value, gradient = jax.jit(jax.value_and_grad(loss), static_argnums=1)(matrix, loop)
    expected, to_full = jax.jit(jax.value_and_grad(loss), static_argnums=1)(Dense(full), "plain")
    assert_close(value, expected, rtol=1e-5)
    of_terms = gradient.terms[1].diagonal
    assert_close(of_terms, np.diag(to_full.kernel), atol=1e-5)


def test_what_symbols_stand_for():
    symbols, kernel = jnp.asarray([2, 0]), jnp.asarray(np.random.default_rng(2).standard_normal((3, 4)), jnp.float32)
    weighted = Weighted(symbols, jnp.asarray([0.5, 3.0]))
    np.testing.assert_array_equal(as_vectors(symbols, 3, float), np.eye(3)[[2, 0]])
    np.testing.assert_array_equal(as_vectors(weighted, 3, float), np.array([[0, 0, 0.5], [3, 0, 0]]))
    for v in (symbols, weighted):
        assert is_symbols(v)
        assert not is_vectors(v)
        assert_close(select(kernel, v), as_vectors(v, 3, float) @ kernel)
    assert is_vectors(kernel)
    assert not is_symbols(kernel)


@pytest.mark.parametrize("kind", [jnp.uint8, jnp.int8, jnp.uint16])
def test_symbols_of_few_bits_are_vectors_of_any_width(kind):
    """Columns are numbered in wider integers: 600 columns have no numbers of their own in bytes."""
    symbols = jnp.array([5, 100], kind)
    np.testing.assert_array_equal(as_vectors(symbols, 600, jnp.float32), np.eye(600)[[5, 100]])
    weighted = Weighted(symbols, jnp.array([2.0, 0.5]))
    np.testing.assert_array_equal(as_vectors(weighted, 600, jnp.float32), np.eye(600)[[5, 100]] * [[2.0], [0.5]])


def test_only_matrices_that_need_vectors_get_them():
    symbols = jnp.asarray([1, 0])
    assert input_for(Dense(jnp.eye(2)), symbols) is symbols
    np.testing.assert_array_equal(input_for(Diagonal(jnp.ones(2)), symbols), np.eye(2)[[1, 0]])
    vectors = jnp.eye(2)
    assert input_for(Diagonal(jnp.ones(2)), vectors) is vectors


def test_a_term_of_a_users_own_class_gets_vectors_for_symbols():
    @register_fields
    @dataclass(frozen=True)
    class Own:
        kernel: jax.Array
        shape = 3, 3

        def apply(self, v):
            return v @ self.kernel

    both = Sum((Own(2 * jnp.eye(3)), Dense(jnp.eye(3))))
    np.testing.assert_array_equal(both.apply(jnp.asarray([2, 0])), 3 * np.eye(3)[[2, 0]])


@pytest.mark.parametrize(("codes", "units"), [(27, 0), (26, 0), (28, 0), (54, 1), (27 * 4, 3), (27 * 4 + 1, 0), (0, 0)])
def test_numbers_of_codes_say_how_many_units_there_are(codes, units):
    assert units_of(codes, 27) == units
    assert units_of(codes_of(27, units), 27) == units


def test_codes_are_decoded():
    symbols, units, complete = decode(jnp.asarray([4, 27 + 2, 3 * 27]), 27)
    np.testing.assert_array_equal(symbols, [4, 2, 0])
    np.testing.assert_array_equal(complete, [False, True, True])
    np.testing.assert_array_equal(units[complete], [0, 2])


def test_codes_of_eight_bits_are_decoded_with_more_symbols_than_they_have():
    symbols, units, complete = decode(jnp.asarray([5, 255], jnp.uint8), 300)
    assert (symbols.tolist(), units.tolist(), complete.tolist()) == ([5, 255], [0, 0], [False, False])


def test_weights_of_symbols_are_cast_to_the_type_of_the_gradient():
    """Dropout of words draws float32 weights, and JAX may be told to refuse mixtures."""
    u = Weighted(jnp.asarray([0, 2]), jnp.asarray([2.0, 0.5]))
    v = jnp.ones((2, 3), jnp.bfloat16)
    with jax.numpy_dtype_promotion("strict"):
        found = over_inputs(u, v, 4, jnp.bfloat16)
    assert found.dtype == jnp.bfloat16
    np.testing.assert_array_equal(found[:, 0].astype(jnp.float32), [2.0, 0.0, 0.5, 0.0])


@pytest.mark.parametrize("symbols", [[[0, 5]], [[-1, 0]]])
def test_symbols_that_a_network_does_not_have_are_one_line(symbols):
    network = ModelConfig(size=3, rank=2).build(5, 2, "all")
    params = network.init(jax.random.key(0), jnp.zeros((1, 1), int))
    with pytest.raises(UsageError, match=r"the inputs contain the symbol (5|-1): expected numbers from 0 to 4"):
        network.apply(params, jnp.asarray(symbols))
    assert network.apply(params, jnp.asarray([[0, 4]])).shape == (1, 2, 2)
    assert jax.jit(network.apply)(params, jnp.asarray(symbols)).shape == (1, 2, 2)  # not known before the compiled function runs
    check_symbols(jnp.zeros((2, 0), int), 5)
    with pytest.raises(UsageError, match=r"the inputs contain the symbol (5|-1)"):
        check_symbols(Weighted(jnp.asarray(symbols), jnp.ones((1, 2))), 5)


@pytest.mark.parametrize("kind", ["dense", "low_rank"])
@pytest.mark.parametrize("loop", LOOPS)
def test_numbers_that_are_no_symbols_are_vectors_of_zeros(kind, loop):
    """In values and gradients: what a compiled function is given, nobody checks."""
    rng = np.random.default_rng(0)
    draw = lambda *shape: jnp.asarray(rng.standard_normal(shape), jnp.float32)  # noqa: E731
    matrix = Dense(draw(4, 3)) if kind == "dense" else LowRank(draw(2, 3), draw(2, 4))
    recurrent, carry = LowRank(draw(2, 3), draw(2, 3)), draw(5, 3)

    def step(params, h, x):
        h = jnp.tanh(params["recurrent"].apply(h) + params["input"].apply(x))
        return h, (h, None)

    @jax.jit
    def gradients(xs):
        def loss(params):
            last, ys = recur(step, params, carry, xs, loop=loop)
            return weighted_sum((last, ys)), (last, ys)

        return jax.value_and_grad(loss, has_aux=True)({"input": matrix, "recurrent": recurrent})

    symbols = jnp.asarray([[0, -1, 4, 3, 100], [1, 2, -5, -4, 3]])
    assert_close(gradients(symbols), gradients(jax.nn.one_hot(symbols, 4)))


@pytest.mark.parametrize("loop", ["plain", "fast"])
@pytest.mark.parametrize("changes", [{}, {"embedding": 4}, {"embedding": 4, "embedding_rank": 2}], ids=["none", "full", "low rank"])
def test_an_embedding_has_vectors_of_zeros_for_them(changes, loop):
    network = ModelConfig(size=3, parametrization="dense", recurrence=loop, **changes).build(5, 2, "all")
    symbols = jnp.asarray([[0, 7, 4, -1], [5, 1, -5, 2]])
    params = network.init(jax.random.key(0), jnp.zeros((1, 1), int))

    @jax.jit
    @jax.value_and_grad
    def loss(params, inputs):
        return weighted_sum(network.apply(params, inputs))

    assert_close(loss(params, symbols), loss(params, jax.nn.one_hot(symbols, 5)))


@pytest.mark.parametrize("changes", [{}, {"embedding": 4}], ids=["none", "full"])
def test_word_dropout_gives_them_numbers(changes):
    config = ModelConfig(size=3, parametrization="dense", word_dropout=0.5, word_masks="types", **changes)
    network, symbols = config.build(5, 2, "all"), jnp.asarray([[0, 7, 4, -1]])
    params = network.init(jax.random.key(0), jnp.zeros((1, 1), int))
    apply = jax.jit(lambda params, symbols: network.apply(params, symbols, train=True, rngs={"dropout": jax.random.key(1)}))
    assert np.isfinite(apply(params, symbols)).all()
