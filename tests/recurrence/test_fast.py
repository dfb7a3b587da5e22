"""The fast loop where a GRU does not reach: operators used twice, raw parameters, integers, dtypes, higher derivatives; and memory."""

import warnings
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import export
from table import Tripled, assert_close

from lrpt.losses import cross_entropy
from lrpt.matrices import Bias, Composite, Dense, Diagonal, LowRank, Projection, Sum, low_rank_plus_diagonal
from lrpt.networks.sequence_model import ModelConfig, SequenceModel
from lrpt.pytrees import register_fields
from lrpt.recurrence import BY_RULE, LOOPS, Tuning, fast, recur
from lrpt.recurrence.deferred import _plan, chunk_length, keeps_all, supported
from lrpt.recurrence.interception import trace_calls
from lrpt.recurrence.products import is_costly

SIZE, INPUTS, SYMBOLS, BATCH = 8, 5, 7, 4


class Params(NamedTuple):
    recurrent: Sum
    embedding: Dense
    input: LowRank
    bias: Bias
    raw: jax.Array
    readout: Dense


class Carry(NamedTuple):
    h: Any
    c: Any
    count: Any


def stress(p, carry, x):
    """One operator used twice, a raw vector, an embedding, masks of padding and dropout, a readout within, an integer state."""
    token, v, valid, keep = x
    z = jax.nn.sigmoid(p.recurrent.apply(carry.h * keep) + p.embedding.apply(token) + p.bias.apply(carry.h))
    g = jnp.tanh(p.recurrent.apply(z * carry.c) + p.input.apply(v) + p.raw[None] * carry.h)
    h = jnp.where(valid[:, None], z * carry.h + (1 - z) * g, carry.h)
    return Carry(h, 0.5 * carry.c + g, carry.count + 1), (p.readout.apply(h), jnp.argmax(h, axis=-1))


def network(steps, dtype=jnp.float32):
    rng = np.random.default_rng(0)

    def normal(*shape):
        return jnp.asarray(0.3 * rng.standard_normal(shape), dtype)

    params = Params(
        low_rank_plus_diagonal(normal(3, SIZE), normal(3, SIZE), normal(SIZE)),
        Dense(normal(SYMBOLS, SIZE)),
        LowRank(normal(2, SIZE), normal(2, INPUTS)),
        Bias(normal(SIZE)),
        normal(SIZE),
        Dense(normal(SIZE, 6)),
    )
    tokens = jnp.asarray(rng.integers(0, SYMBOLS, (steps, BATCH)))
    valid = jnp.asarray(rng.random((steps, BATCH)) < 0.8)
    keep = jnp.asarray(rng.random((steps, BATCH, SIZE)) < 0.7, dtype)
    return params, (normal(BATCH, SIZE), normal(BATCH, SIZE)), normal(steps, BATCH, INPUTS), (tokens, valid, keep)


def loss(loop, params, state, v, others, tuning=BY_RULE):
    tokens, valid, keep = others
    carry = Carry(*state, jnp.zeros(BATCH, jnp.int32))
    last, (y, _) = LOOPS[loop](stress, params, carry, (tokens, v, valid, keep), tuning)
    return (jnp.sum(jnp.sin(y)) + jnp.sum(last.h**2) + jnp.sum(last.c)).astype(jnp.float32)


def largest_error(actual, expected):
    """Over all arrays, relative to the largest entry of each."""
    pairs = zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True)
    arrays = ((np.asarray(a, np.float32), np.asarray(e, np.float32)) for a, e in pairs)
    return max(np.max(np.abs(a - e)) / np.max(np.abs(e)) for a, e in arrays)


@pytest.fixture(params=["by rule", "everything"])
def keeping(request, monkeypatch):
    """Products are worth keeping only from a width on that no cell of these tests has: here all of them are, too."""
    if request.param == "everything":
        monkeypatch.setattr("lrpt.recurrence.products.COSTLY", 1)


@pytest.mark.usefixtures("keeping")
@pytest.mark.parametrize("steps", [1, 3, 101])
def test_values_and_gradients_of_the_stress_cell(steps):
    arguments = network(steps)
    fast_, plain = (jax.jit(jax.value_and_grad(loss, argnums=(1, 2, 3)), static_argnums=0)(loop, *arguments) for loop in ("fast", "plain"))
    assert largest_error(fast_, plain) < 3e-6


@pytest.mark.usefixtures("keeping")
def test_a_step_may_be_a_chunk_of_its_own():
    arguments = network(9)
    gradient = jax.jit(jax.value_and_grad(loss, argnums=(1, 2, 3)), static_argnums=(0, 5))
    assert largest_error(gradient("fast", *arguments, Tuning(1)), gradient("plain", *arguments, BY_RULE)) < 3e-6


@pytest.mark.slow
@pytest.mark.usefixtures("keeping")
@pytest.mark.parametrize("chunk", [16, 28, 101, 200])
def test_states_at_the_boundaries_of_chunks_are_enough(chunk):
    arguments = network(101)
    gradient = jax.jit(jax.value_and_grad(loss, argnums=(1, 2, 3)), static_argnums=(0, 5))
    assert largest_error(gradient("fast", *arguments, Tuning(chunk, "boundaries")), gradient("plain", *arguments, BY_RULE)) < 3e-6


@pytest.mark.slow
def test_bfloat16_stays_near_float32():
    """Numbers of 8 bits through 32 steps: within a tenth."""
    gradient = jax.jit(jax.grad(loss, argnums=1), static_argnums=0)
    exact = gradient("plain", *network(32))
    assert largest_error(gradient("fast", *network(32, jnp.bfloat16)), exact) < 0.1


@pytest.mark.slow
@pytest.mark.usefixtures("keeping")
def test_second_derivatives():
    params, state, v, others = network(9)

    @partial(jax.jit, static_argnums=0, compiler_options={"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True})
    def derivatives(loop, v):
        def of_gradient(v):
            return sum(jnp.sum(jnp.sin(g)) for g in jax.tree.leaves(jax.grad(loss, argnums=1)(loop, params, state, v, others)))

        return jax.grad(of_gradient)(v), jax.jvp(lambda v: jax.grad(loss, argnums=3)(loop, params, state, v, others), (v,), (v,))[1]

    assert largest_error(derivatives("fast", v), derivatives("plain", v)) < 1e-5


@pytest.mark.usefixtures("keeping")
def test_second_derivatives_by_matrices_of_inputs_that_are_not_differentiated():
    """The curvature of a loss along a direction, as in gradient penalties, meta-learning and Newton's methods."""
    params, (h, _), v, _ = network(3)
    whole = Dense(v[0].T @ h)

    def step(p, h, x):
        return jnp.tanh(p["whole"].apply(x) + p["low_rank"].apply(x) + p["recurrent"].apply(h)), None

    def curvature(loop):
        def gradient(p):
            return jax.grad(lambda p: jnp.sum(jnp.sin(LOOPS[loop](step, p, h, v, BY_RULE)[0])))(p)

        p = {"whole": whole, "low_rank": params.input, "recurrent": params.recurrent}
        twice = jax.grad(lambda p: sum(jnp.sum(jnp.sin(g)) for g in jax.tree.leaves(gradient(p))))(p)
        return twice, jax.jvp(gradient, (p,), (p,))[1]

    assert largest_error(jax.jit(curvature, static_argnums=0)("fast"), jax.jit(curvature, static_argnums=0)("plain")) < 1e-5


@pytest.mark.slow
@register_fields
@dataclass(frozen=True)
class Flipped:
    """A user's matrix that takes rows with one leading axis, as a step has them, and has no gradient of its own."""

    scale: jax.Array

    @property
    def shape(self):
        return self.scale.size, self.scale.size

    def apply(self, v):
        return jnp.flip(v, axis=1) * self.scale[None]

    def to_dense(self):
        return jnp.flip(jnp.diag(self.scale), axis=1)


@pytest.mark.parametrize(("steps", "chunk"), [(7, None), (7, 1), (7, 3), (1, None)])
def test_a_users_matrix_sees_the_rows_of_one_step(steps, chunk):
    def step(p, h, x):
        h = jnp.tanh(p.apply(h) + x)
        return h, (h, None)

    xs, p, h = jax.random.normal(jax.random.key(0), (steps, 3, 4)), Flipped(jnp.arange(1.0, 5.0) / 4), jnp.ones((3, 4))

    def gradients(loop):
        return jax.grad(lambda p, h, xs: jnp.sum(recur(step, p, h, xs, loop=loop, tuning=Tuning(chunk=chunk))[1] ** 2), (0, 1, 2))(p, h, xs)

    assert_close(gradients("fast"), gradients("plain"), rtol=1e-5)


def test_vmap_over_models():
    params, state, v, others = network(9)
    several = jax.tree.map(lambda a: jnp.stack([a, 1.1 * a, 0.9 * a]), params)
    one = jax.grad(loss, argnums=1)
    fast_, plain = (jax.jit(jax.vmap(lambda p, loop=loop: one(loop, p, state, v, others)))(several) for loop in ("fast", "plain"))
    assert largest_error(fast_, plain) < 1e-5


def test_pmap_over_devices():
    params, state, v, others = network(9)
    devices = jax.local_device_count()
    several = jax.tree.map(lambda a: jnp.stack([a * (1 + i / 10) for i in range(devices)]), params)
    fast_, plain = (jax.pmap(jax.grad(lambda p, loop=loop: loss(loop, p, state, v, others)))(several) for loop in ("fast", "plain"))
    assert largest_error(fast_, plain) < 1e-5


def test_forward_mode_says_what_to_use():
    params, state, v, others = network(3)
    with pytest.raises(TypeError, match="use loop 'plain'"):
        jax.jvp(lambda v: loss("fast", params, state, v, others), (v,), (v,))


def test_no_tracer_outlives_its_trace():
    params, state, v, others = network(3)
    with jax.checking_leaks():
        jax.make_jaxpr(jax.grad(lambda p: loss("fast", p, state, v, others)))(params)


def test_projections_of_one_vector_are_one_product_and_a_shared_one_is_applied_once():
    params, (h, _), _, _ = network(3)
    right = params.recurrent.terms[0].right
    tied = [LowRank(left, right) for left in (params.recurrent.terms[0].left, 2 * params.recurrent.terms[0].left)]

    def step(matrices, h, _):
        return sum(jnp.tanh(matrix.apply(h)) for matrix in matrices), None

    assert len(trace_calls(step, tied, h, None).products) == 3
    untied = [tied[0], LowRank(tied[1].left, 2 * right)]
    calls = trace_calls(step, untied, h, None)
    assert [len(product.parts) for product in calls.products] == [2, 1, 1]
    assert calls.kept == [0]

    def loss(loop, right):
        last, _ = LOOPS[loop](step, [LowRank(matrix.left, right) for matrix in tied], h, jnp.zeros((9, 1)))
        return jnp.sum(last**2)

    fast_, plain = (jax.jit(jax.grad(partial(loss, loop)))(right) for loop in ("fast", "plain"))
    assert largest_error(fast_, plain) < 1e-5


def assert_like_plain(matrices, dtype=jnp.float32):
    """Check the values and gradients of a cell that applies several matrices to its state."""
    _, (h, _), v, _ = network(5)

    def step(matrices, h, x):
        return jnp.tanh(sum(matrix.apply(h).astype(h.dtype) for matrix in matrices)), None

    def loss(loop, floats, rest):
        last, _ = LOOPS[loop](step, jax.tree.map(lambda a, b: b if a is None else a, floats, rest, is_leaf=lambda a: a is None), h, v)
        return jnp.sum(jnp.sin(last))

    floats = jax.tree.map(lambda a: a if jnp.issubdtype(a.dtype, jnp.inexact) else None, matrices)
    fast_, plain = (jax.value_and_grad(partial(loss, loop))(floats, matrices) for loop in ("fast", "plain"))
    assert [a.dtype for a in jax.tree.leaves(fast_)] == [a.dtype for a in jax.tree.leaves(plain)]
    assert largest_error(fast_, plain) < (1e-5 if dtype == jnp.float32 else 2e-2)


def test_an_operator_may_hold_integers():
    @register_fields
    @dataclass(frozen=True)
    class Permuted:
        kernel: Any
        order: Any

        def apply(self, v):
            return (v @ self.kernel)[..., self.order]

    assert_like_plain([Permuted(jnp.eye(SIZE) / 2 + 0.1, jnp.roll(jnp.arange(SIZE), 1))])


def test_an_operator_may_know_the_axes_of_one_step_only():
    """Rows and components: its `apply` is wrong, or fails, with an axis of steps before them."""

    @register_fields
    @dataclass(frozen=True)
    class Rolled:
        scale: Any

        def apply(self, v):
            return self.scale[None] * jnp.roll(v, 1, axis=1)

    @register_fields
    @dataclass(frozen=True)
    class Summed:
        kernel: Any

        def apply(self, v):
            return jnp.einsum("bi,io->bo", v, self.kernel)

    _, (h, c), _, _ = network(5)
    assert_like_plain([Rolled(jnp.linspace(0.1, 0.5, SIZE)), Summed(0.1 * h.T @ c)])


@pytest.mark.parametrize("holder", [lambda matrix: matrix, lambda matrix: Sum((matrix, Dense(jnp.eye(SIZE))))])
def test_a_subclass_of_a_composite_may_apply_it_in_another_way(holder):
    params, _, _, _ = network(5)
    low_rank = params.recurrent.terms[0]
    assert_like_plain([holder(Tripled(low_rank.left / 3, low_rank.right))])  # larger products would amplify rounding errors


@register_fields
@dataclass(frozen=True)
class Scaled(Composite):
    """A matrix whose output is scaled: by an array of its own, or by a part that holds it."""

    matrix: Any
    scale: jax.Array
    way: str = field(metadata={"static": True})

    def apply_by(self, call, v):
        if self.way == "as a part":
            return call(Diagonal(self.scale), call(self.matrix, v))
        if self.way == "as an input":
            return call(self.matrix, v * self.scale[None])
        scale = (jax.lax.stop_gradient(self.scale) if self.way == "also as a constant" else self.scale)[None]
        twice = call(Diagonal(self.scale), v) if self.way.startswith("also") else 0
        return call(self.matrix, v) * scale + twice


@pytest.mark.parametrize("way", ["as a factor", "as an input", "also as a part"])
def test_a_composite_that_uses_an_array_outside_of_its_parts_is_refused(way):
    """The fast loop would lose its gradient."""
    _, (h, c), _, _ = network(3)
    with pytest.raises(TypeError, match=r"Sum uses its array \.terms\[0\]\.scale outside of `call` .* call\(Diagonal\(array\), v\)"):
        assert_like_plain([Sum((Scaled(Dense(0.1 * h.T @ c), c[0], way), Diagonal(c[1])))])


@pytest.mark.parametrize("way", ["as a part", "also as a constant"])
def test_a_composite_may_use_an_array_as_a_part_or_a_constant(way):
    _, (h, c), _, _ = network(3)
    assert_like_plain([Scaled(LowRank(h, c), c[0], way)])


@pytest.mark.parametrize("kind", [Dense, Projection])
def test_a_subclass_of_a_full_matrix_may_apply_it_in_another_way(kind):
    class Shifted(kind):
        def apply(self, v):
            return 3 * super().apply(v + 1)

    register_fields(Shifted)
    _, (h, c), _, _ = network(5)
    assert_like_plain([Shifted(0.1 * h.T @ c), Shifted(0.1 * c.T @ h)])


def test_projections_of_one_vector_may_have_different_types():
    params, _, _, _ = network(5)
    wide = params.recurrent.terms[0]
    narrow = jax.tree.map(lambda a: 2 * a.astype(jnp.bfloat16), wide)
    assert_like_plain([wide, narrow], jnp.bfloat16)


def test_an_array_may_be_a_matrix_and_a_raw_parameter():
    """Its gradient is the sum over all its uses, the raw ones too."""
    _, (h, c), v, _ = network(5)

    def step(p, h, _):
        return jnp.tanh(p["matrix"].apply(h) + h @ p["raw"] + jnp.sum(p["again"], axis=0, keepdims=True)), None

    def loss(loop, kernel):
        return jnp.sum(jnp.sin(LOOPS[loop](step, {"matrix": Dense(kernel), "raw": kernel, "again": kernel}, h, v)[0]))

    fast_, plain = (jax.grad(partial(loss, loop))(0.1 * h.T @ c) for loop in ("fast", "plain"))
    assert largest_error(fast_, plain) < 1e-5


@pytest.mark.parametrize("compile_", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_parameters_may_start_as_one_array(tied, compile_):
    """As tied ones do outside of jit, and offsets that are all made of the same zeros: each use is a parameter of its own."""
    _, (h, c), v, _ = network(5)

    def step(p, h, _):
        return jnp.tanh(p["one"].apply(h) - p["other"].apply(h) * p["gain"][None] + p["offset"][None]), None

    def gradient(loop, kernel, vector):
        one = LowRank(kernel[:2], kernel[2:4])
        p = {"one": one, "other": LowRank(2 * one.left, one.right if tied else -one.right), "gain": vector, "offset": vector}
        return jax.grad(lambda p: jnp.sum(jnp.sin(LOOPS[loop](step, p, h, v)[0])))(p)

    of = jax.jit(gradient, static_argnums=0) if compile_ else gradient
    fast_, plain = (of(loop, 0.1 * h.T @ c, c[0]) for loop in ("fast", "plain"))
    assert largest_error(fast_, plain) < 1e-5


def test_states_without_components_pass():
    h, xs = jnp.zeros((2, 0)), jnp.zeros((3, 2, 0))
    end, ys = fast(lambda matrix, h, x: (matrix.apply(h) + x, h), Dense(jnp.zeros((0, 0))), h, xs)
    assert (end.shape, ys.shape) == ((2, 0), (3, 2, 0))


def test_it_works_with_this_jax():
    supported.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert supported()


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["LinearStep", "trace_calls"])
def test_another_jax_falls_back_with_one_warning(broken, monkeypatch):
    monkeypatch.setattr(f"lrpt.recurrence.deferred.{broken}", None)
    arguments = network(9)
    supported.cache_clear()
    with pytest.warns(UserWarning, match=r"does not work with jax .* using 'checkpoint'"):
        first = jax.jit(jax.grad(partial(loss, "fast")))(*arguments)
    second = jax.jit(jax.grad(partial(loss, "fast")))(*arguments)
    supported.cache_clear()
    assert_close(first, second)
    assert largest_error(first, jax.jit(jax.grad(partial(loss, "plain")))(*arguments)) < 1e-5


@pytest.mark.parametrize(
    ("store", "steps", "expected"), [("auto", 784, True), ("auto", 10**5, False), ("all", 10**5, True), ("boundaries", 9, False)]
)
def test_every_state_is_kept_unless_that_takes_much_memory(store, steps, expected):
    assert keeps_all(steps, jax.ShapeDtypeStruct((20, 128), jnp.float32), Tuning(store=store)) == expected
    assert keeps_all(64, jax.ShapeDtypeStruct((2**20,), jnp.float32), Tuning())  # 256 MiB, the limit


@pytest.mark.parametrize(
    ("steps", "batch", "width", "expected"),
    [
        (784, 20, 128, 8),
        (120, 20, 128, 10),
        (784, 128, 128, 1),
        (67, 20, 128, 11),
        (750, 20, 512, 2),
        (50, 64, 1000, 1),
        (50, 128, 1000, 1),
        (3, 20, 128, 3),
        (50, 1, 8, 50),
        (1000, 1, 8, 50),
    ],
)
def test_chunks_have_about_30000_values_and_divide_the_sequence_where_possible(monkeypatch, steps, batch, width, expected):
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert chunk_length(steps, batch * width) == expected


def test_chunks_of_accelerators_are_longer(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert [chunk_length(steps, batch * 128) for steps, batch in ((784, 20), (784, 128), (67, 20))] == [28, 4, 35]


def test_choices_and_sizes_reach_the_loop(monkeypatch):
    """The chunk by rule is that of the widest output and of all weights."""
    assert supported()  # before it is asked for through the loop below
    found = []
    monkeypatch.setattr("lrpt.recurrence.deferred._run", lambda *args: found.append(args[-1][:2]) or (None, None))
    params, carry, xs = [Dense(jnp.ones((100, 2))), Dense(jnp.ones((2, 100)))], jnp.ones((1000, 100)), jnp.zeros((120, 1))

    def step(matrices, h, _):
        return jnp.tanh(matrices[1].apply(matrices[0].apply(h))), None

    for tuning in (Tuning(), Tuning(chunk=7), Tuning(store="boundaries")):
        fast(step, params, carry[:200], xs, tuning)
    fast(step, params, carry, jnp.zeros((640, 1)))
    assert found == [(1, True), (7, True), (10, False), (1, True)]
    monkeypatch.setattr("lrpt.recurrence.deferred.STORED_BYTES", 640 * 1000 * 100 * 4)
    fast(step, params, carry, jnp.zeros((640, 1)))  # the states alone would fit, and the stored projections do not
    assert found[-1] == (20, False)
    shape = jax.ShapeDtypeStruct((*export.symbolic_shape("b"), 100), jnp.float32)
    for store in ("auto", "boundaries"):
        jax.eval_shape(partial(fast, step, params, xs=xs, tuning=Tuning(store=store)), shape)
    assert found[-2:] == [(24, True), (24, False)]


@pytest.mark.parametrize(("width", "outputs", "stored"), [(48, 48, True), (47, 47, False), (6, 3, True), (5, 3, False)])
def test_products_of_wide_or_much_narrowed_vectors_are_stored(width, outputs, stored):
    v = jnp.ones((BATCH, width))
    assert is_costly(Dense(jnp.ones((width, outputs))), v, v[:, :1].repeat(outputs, 1)) == stored


def test_gradients_of_many_weights_are_not_accumulated_at_each_step():
    assert chunk_length(50, 64 * 1000, weights=18 * 64 * 1000) == 1
    assert chunk_length(50, 64 * 1000, weights=18 * 64 * 1000 + 1) == 2
    assert chunk_length(784, 20 * 128, weights=18 * 20 * 128 + 1) == 28


@pytest.mark.slow
def test_memory_of_a_training_step():
    """Permuted MNIST, batch 20: what XLA takes for temporaries stays below the 32 MiB at which glibc gives memory back after every call."""
    optimizer = optax.sgd(0.1)

    def temporary(steps, loop, **choices):
        model = SequenceModel(ModelConfig(size=128, rank=24, recurrence=loop, **choices), 1, 10)
        x, y = jax.ShapeDtypeStruct((20, steps, 1), jnp.float32), jax.ShapeDtypeStruct((20,), jnp.int32)
        params = jax.eval_shape(model.init, jax.random.key(0), x)

        def update(params, x, y):
            grads = jax.grad(lambda p: jnp.mean(cross_entropy(model.apply(p, x), y)))(params)
            return optax.apply_updates(params, optimizer.update(grads, optimizer.init(params))[0])

        analysis = jax.jit(update, donate_argnums=0).lower(params, x, y).compile().memory_analysis()
        return analysis.temp_size_in_bytes

    state, projected = 20 * 128 * 4, 20 * 3 * 24 * 4
    assert temporary(784, "fast") < 32 * 2**20 < temporary(784, "plain")
    assert temporary(1568, "fast") - temporary(784, "fast") < 1.1 * 784 * (state + projected)
    assert temporary(1568, "fast", store="boundaries") - temporary(784, "fast", store="boundaries") < 0.15 * 784 * state


def sums_of_bfloat16(tuning, parameters, steps=2048, mask=None):
    """The gradient of a matrix and of a bias by a loop, where each step adds about the same."""

    def step(params, carry, x):
        carry = jnp.tanh(0.01 * params[0].apply(carry) + 0.01 * params[1][None] + x)
        return carry, (carry, None)

    def loss(params):
        xs = jnp.full((steps, 1, 4), 0.5, params[1].dtype)
        return recur(step, params, xs[0], xs, mask, loop="fast", tuning=tuning)[1].astype(jnp.float32).sum()

    kernel, bias = jax.grad(loss)(parameters)
    return np.float32(kernel.kernel[0, 0]), np.float32(bias[0])


def test_sums_over_steps_have_32_bits():
    """A sum of bfloat16 would stop growing at 256 times its terms."""
    exact = Dense(jnp.zeros((4, 4))), jnp.zeros(4)
    half = jax.tree.map(lambda a: a.astype(jnp.bfloat16), exact)
    expected = sums_of_bfloat16(Tuning(), exact)
    for chunk in (1, 16):
        np.testing.assert_allclose(sums_of_bfloat16(Tuning(chunk=chunk), half), expected, rtol=0.02)


def test_sums_over_segments_have_32_bits():
    steps = 16 * 1024
    exact, mask = (Dense(jnp.zeros((4, 4))), jnp.zeros(4)), jnp.ones((steps, 1), bool)
    half = jax.tree.map(lambda a: a.astype(jnp.bfloat16), exact)
    expected, found = (sums_of_bfloat16(Tuning(pack="always"), params, steps, mask) for params in (exact, half))
    np.testing.assert_allclose(found, expected, rtol=0.02)


@pytest.mark.parametrize("chunk", [1, 2, 4])
@pytest.mark.parametrize("store", ["all", "boundaries"])
def test_a_linear_step_without_outputs(chunk, store):
    """Its residuals do not vary, and it has no cotangents of outputs, so nothing says how many steps a chunk has but its inputs."""

    def step(params, carry, x):
        return params.apply(carry) + x, (None, None)

    def gradient(loop):
        tuning = Tuning(chunk=chunk, store=store)
        return jax.grad(lambda params: recur(step, params, jnp.ones((2, 3)), jnp.ones((5, 2, 3)), loop=loop, tuning=tuning)[0].sum())(
            Dense(0.3 * jnp.eye(3) + 0.1)
        ).kernel

    np.testing.assert_allclose(gradient("fast"), gradient("plain"), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("pack", ["never", "always"])
def test_a_carry_of_python_numbers_with_bfloat16(loop, pack):
    """Its gradient has the type of the carry, whatever the type that the step makes of it."""

    def step(params, carry, x):
        carry = jnp.tanh(params.apply(carry) + x)
        return carry, (carry, None)

    def loss(carry):
        mask = jnp.ones((5, 2), bool)
        xs, matrix = jnp.ones((5, 2, 3), jnp.bfloat16), Dense(jnp.eye(3, dtype=jnp.bfloat16))
        return recur(step, matrix, carry, xs, mask, loop=loop, tuning=Tuning(pack=pack))[1].astype(float).sum() + (carry * carry).sum()

    carry = jnp.full((2, 3), 0.3)
    assert carry.weak_type
    assert jax.grad(loss)(carry).dtype == jnp.float32


def test_a_wide_state_counts_in_the_length_of_chunks():
    """An elementwise cell has no products, and its chunks have to fit into a cache, too."""
    calls = trace_calls(
        lambda params, carry, x: (jnp.tanh(params * carry + x), None), jnp.ones((1, 10)), jnp.ones((1, 10)), jnp.ones((1, 10))
    )
    assert _plan(64, calls, jax.ShapeDtypeStruct((1, 500_000), jnp.float32), 10, Tuning()).length == 1
    assert _plan(64, calls, jax.ShapeDtypeStruct((1, 10), jnp.float32), 10, Tuning()).length > 1
