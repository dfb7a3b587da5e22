"""What is particular to unitary networks: norms, the point where the modulus has no derivative, starts, and counts."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import unitary_matrix
from table import SIZE, Row, assert_close, gradients, network

from lrpt.cells import CELLS, CellSpec, scale_penalty
from lrpt.cells.stacked import StackParams
from lrpt.cells.unitary import MergedUnitaryParams, UnitaryWithoutFourierParams, unitary_without_fourier
from lrpt.matrices import Bias, Dense, Diagonal, Reflection, Rotation
from lrpt.networks.sequence_model import ModelConfig
from lrpt.parametrizations import MatrixConfig, Parameters
from lrpt.recurrence.materialize import merged
from lrpt.specs import MatrixSpec, OperatorSpec

BOTH = ("unitary", "unitary_without_fourier")
both = pytest.mark.parametrize("cell", BOTH)


@pytest.mark.parametrize("kind", [Rotation, Reflection])
@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
def test_operators_keep_every_norm(kind, batch):
    rng = np.random.default_rng(0)
    operator = kind(jnp.asarray(rng.standard_normal(SIZE if kind is Rotation else 2 * SIZE), jnp.float32))
    v = jnp.asarray(rng.standard_normal((*batch, SIZE)) + 1j * rng.standard_normal((*batch, SIZE)), jnp.complex64)
    assert_close(jnp.linalg.norm(operator.apply(v), axis=-1), jnp.linalg.norm(v, axis=-1))
    full = np.asarray(operator.apply(jnp.eye(SIZE, dtype=jnp.complex64)))
    assert_close(full @ full.conj().T, np.eye(SIZE))
    assert_close(operator.apply(v), np.asarray(v) @ full)


def test_a_reflection_turns_its_vector_round_whatever_its_length():
    vector = np.random.default_rng(0).standard_normal(2 * SIZE).astype(np.float32)
    u = vector[:SIZE] + 1j * vector[SIZE:]
    assert_close(Reflection(jnp.asarray(3 * vector)).apply(jnp.asarray(u.conj())), -u.conj())


def parts(z):
    """The real parts of complex numbers, then the imaginary ones."""
    return np.concatenate([z.real, z.imag], axis=-1)


def numbers(h):
    return h[..., :SIZE] + 1j * h[..., SIZE:]


def drawn_in_double_precision(rng, short):
    """Parameters of the cell without transforms; reflections whose numbers are in `short` have a vector of zeros."""
    rotations, scale, bias = (jnp.asarray(rng.standard_normal(shape)) for shape in ((3, SIZE), (SIZE,), (SIZE,)))
    vectors = [jnp.asarray(rng.standard_normal(2 * SIZE)) * (k not in short) for k in range(2)]
    inputs = [Dense(jnp.asarray(rng.standard_normal((3, SIZE)))) for _ in range(2)]
    return UnitaryWithoutFourierParams(
        *inputs, tuple(map(Rotation, rotations)), tuple(map(Reflection, vectors)), Diagonal(scale), Bias(bias)
    )


def weights_of(params):
    """The weights by the names that the oracle knows them by."""
    rotations = {f"rotations.{k}": rotation.angles for k, rotation in enumerate(params.rotations)}
    reflections = {f"reflections.{k}": reflection.vector for k, reflection in enumerate(params.reflections)}
    return jax.tree.map(np.asarray, rotations | reflections | {"scale": params.scale.diagonal})


def without_input_bias_and_scale(net):
    """The network with V = 0, b = 0 and, where it has scales, s = 1."""

    def silent(_, op):
        value = {Dense: 0.0, Bias: 0.0, Diagonal: 1.0}.get(type(op))
        return op if value is None else jax.tree.map(lambda a: jnp.full_like(a, value), op)

    return net.replace_operators(silent)


@pytest.mark.slow
@both
def test_a_step_without_input_bias_and_scale_keeps_norms_and_so_does_its_gradient(cell):
    """Up to the 1e-5 in the denominator."""
    net = without_input_bias_and_scale(network(Row(cell, "dense")))
    (_, (end, _)), _ = gradients(net.cell, net.params, net.carry, net.xs)
    np.testing.assert_allclose(np.linalg.norm(end, axis=-1), np.linalg.norm(net.carry, axis=-1), rtol=1e-3)
    jacobian = jax.jacrev(lambda h: net.cell.step(net.params, h, net.xs[0, 0])[0])(net.carry[0])
    np.testing.assert_allclose(jacobian @ jacobian.T, np.eye(2 * SIZE), atol=1e-3)


@both
def test_gradients_at_a_state_of_zeros_without_input_are_finite(cell):
    net = network(Row(cell, "dense"))
    (_, outputs), grads = gradients(net.cell, net.params, jnp.zeros_like(net.carry), jnp.zeros_like(net.xs))
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(outputs))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))


@both
def test_starts_are_those_of_the_original_codes(cell):
    n, m = 300, 40
    spec = CellSpec(m, n)
    module = Parameters(CELLS[cell].template(spec), MatrixConfig(), MatrixConfig())
    stored = jax.jit(module.init)(jax.random.key(0))["params"]
    published = cell == "unitary"
    phase = math.pi if published else math.sqrt(6 / (3 + n))
    bounds = (
        {f"rotations_{k}": phase for k in range(3)} | {f"reflections_{k}": math.sqrt(6 / (2 + 2 * n)) for k in range(2)} | {"bias": 0.01}
    )
    for name, bound in bounds.items():
        largest = np.abs(stored["operator"][name]).max()
        assert 0.95 * bound < largest <= bound * (1 + 1e-6), name
    drawn = {np.asarray(stored["operator"][name]).tobytes() for name in bounds}
    assert len(drawn) == len(bounds)
    if not published:
        np.testing.assert_array_equal(stored["operator"]["scale"], np.ones(n))
    inputs = {"input": (m, 2 * n)} if published else {"input_real": (m, n), "input_imaginary": (m, n)}
    assert {name: matrix["kernel"].shape for name, matrix in stored["input"].items()} == inputs
    assert stored.keys() == {"input", "operator"}
    assert CELLS[cell].initial_spread(spec) == pytest.approx(math.sqrt(3 / (2 * n) if published else 3 / n))


def test_initial_states_are_drawn_on_both_sides_of_zero():
    model = ModelConfig("unitary", 100).build(3, 2, "last")
    (row,) = jax.tree.leaves(jax.jit(model.init)(jax.random.key(0), jnp.zeros((1, 1, 3)))["params"]["recurrent"]["initial_state"])
    bound = math.sqrt(1.5 / 100)
    assert -bound <= row.min() < -0.9 * bound
    assert 0.9 * bound < row.max() <= bound


def test_layers_have_initial_states_of_their_own():
    model = ModelConfig("unitary", 100, layers=2).build(3, 2, "last")
    rows = jax.tree.leaves(jax.jit(model.init)(jax.random.key(0), jnp.zeros((1, 1, 3)))["params"]["recurrent"]["initial_state"])
    assert abs(np.corrcoef(*rows)[0, 1]) < 0.3


@both
@pytest.mark.parametrize("precision", [jnp.bfloat16, jnp.float16])
def test_a_state_of_half_precision_stays_one(cell, precision):
    """XLA has no complex numbers of half precision, so a step computes in single precision."""
    model, inputs = ModelConfig(cell, 4).build(3, 2, "all"), jax.random.normal(jax.random.key(1), (2, 3, 3))
    variables = model.init(jax.random.key(0), inputs)
    half = jax.tree.map(lambda a: a.astype(precision), variables)
    found = model.apply(half, inputs.astype(precision))
    assert found.dtype == precision
    assert_close(found.astype(jnp.float32), model.apply(variables, inputs), atol=0.05)


@pytest.mark.parametrize("short", [(), (0,), (1,), (0, 1)], ids="reflections with a vector of zeros: {}".format)
def test_merged_parameters_give_the_same_map_and_gradients(short):
    """In double precision: a permuted diagonal plus a matrix of rank 2, against the full matrix of the formula and reverse mode of it."""
    with jax.enable_x64():
        rng = np.random.default_rng(2)
        params = drawn_in_double_precision(rng, short)
        h = jnp.asarray(rng.standard_normal((4, 2 * SIZE)))
        x = jnp.asarray(rng.standard_normal((4, 3)))
        if not short:
            expected = numbers(np.asarray(h)) @ unitary_matrix(weights_of(params), fourier=False).T
            np.testing.assert_allclose(params.merged().transition(h), parts(expected), rtol=1e-9, atol=1e-12)

        def loss(params, h, merge):
            return jnp.sum(jnp.sin(unitary_without_fourier(params.merged() if merge else params, h, x)[0]))

        expected, found = (jax.value_and_grad(loss, (0, 1))(params, h, merge) for merge in (False, True))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), expected, found)


@pytest.mark.parametrize(
    ("choice", "steps", "expected"), [("auto", 2, True), ("auto", 1, False), ("always", 1, True), ("never", 500, False)]
)
@pytest.mark.parametrize("layers", [1, 2])
def test_parameters_are_merged_for_several_steps(choice, steps, expected, layers):
    params = network(Row("unitary_without_fourier", "dense")).params
    tree = params if layers == 1 else StackParams((params, params))
    nodes = jax.tree.leaves(merged(tree, choice, steps), is_leaf=lambda node: isinstance(node, MergedUnitaryParams))
    assert sum(isinstance(node, MergedUnitaryParams) for node in nodes) == layers * expected


@pytest.mark.parametrize("loop", ["plain", "fast"])
def test_a_network_runs_with_merged_parameters_and_gets_the_gradients_of_its_own(monkeypatch, loop):
    xs, used = jax.random.normal(jax.random.key(1), (5, 3, 3)), []
    transition = MergedUnitaryParams.transition
    monkeypatch.setattr(MergedUnitaryParams, "transition", lambda self, h: used.append(h) or transition(self, h))

    def run(choice):
        model = ModelConfig("unitary_without_fourier", SIZE, input_dropout=0.5, recurrence=loop, materialize=choice).build(3, 2, "all")
        variables = model.init(jax.random.key(0), xs)
        used.clear()
        rngs = {"dropout": jax.random.key(2)}
        return jax.value_and_grad(lambda variables: jnp.sum(jnp.sin(model.apply(variables, xs, train=True, rngs=rngs))))(variables)

    expected = run("never")
    assert not used
    found = run("auto")
    assert used
    assert_close(found, expected)


def test_the_penalty_of_the_scales():
    assert scale_penalty(jnp.array([1.0, 1.5, 0.0])) == pytest.approx(5 * (0.25 + 1))
    assert scale_penalty(jnp.array([3.0]), weight=2.0) == pytest.approx(8.0)


def size_of(spec):
    if isinstance(spec, MatrixSpec):
        return spec.n_in * spec.n_out
    assert isinstance(spec, OperatorSpec)
    return math.prod(spec.shape)


@pytest.mark.parametrize(
    ("cell", "size", "inputs", "outputs", "expected"),
    [
        ("unitary", 128, 10, 9, 6_153),
        ("unitary", 512, 2, 1, 8_193),
        ("unitary", 512, 1, 10, 16_394),
        ("unitary", 512, 10, 10, 25_610),
        ("unitary", 721, 10, 10, 36_060),
        ("unitary_without_fourier", 128, 10, 10, 6_538),
        ("unitary_without_fourier", 721, 10, 10, 36_781),
    ],
)
def test_counts_are_those_of_the_original_codes(cell, size, inputs, outputs, expected):
    """The cell's parameters, its initial state, and a dense, biased readout."""
    spec = CellSpec(inputs, size)
    own = sum(map(size_of, jax.tree.leaves(CELLS[cell].template(spec))))
    width = CELLS[cell].output_size(spec)
    assert own + CELLS[cell].carry(spec) + width * outputs + outputs == expected
