"""The persistent GRU against the plain path: in Pallas's GPU interpret mode, and on a Hopper GPU if there is one."""

from dataclasses import replace
from functools import partial

import chex
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from table import weighted_sum

from lrpt.cells import CELLS
from lrpt.cells.cell import Gate
from lrpt.cells.gru import GRUParams, gru, gru_reset_after
from lrpt.cells.stacked import StackParams, stacked
from lrpt.devices import hardware
from lrpt.errors import UsageError
from lrpt.matrices import Bias, Dense, LowRank, low_rank_plus_diagonal
from lrpt.networks.configuration import SequenceLoopConfig
from lrpt.networks.highway_classifier import HighwayConfig
from lrpt.networks.sequence_model import ModelConfig, suits_kernel
from lrpt.recurrence import recur
from lrpt.recurrence.kernels import plan as plans
from lrpt.recurrence.kernels import sequence
from lrpt.symbols import Weighted

pytestmark = pytest.mark.slow

pytest.importorskip("jax.experimental.pallas.mosaic_gpu", reason="this JAX has no Mosaic GPU")
interpreter = pytest.importorskip("jax._src.pallas.mosaic_gpu.interpret.interpret_pallas_call", reason="this JAX has no GPU interpret mode")
persistent = pytest.importorskip("lrpt.recurrence.kernels.persistent")
INTERPRET = interpreter.InterpretGPUParams(detect_races=True)


def normal(rng, *shape):
    return jnp.asarray(rng.standard_normal(shape) / np.sqrt(shape[-1]), jnp.float32)


def network(size, ranks, input_size, batch, steps, diagonal, tied=False, symbols=False):
    """(params, first state, inputs) of a GRU whose gates have the ranks given."""
    rng = np.random.default_rng(0)
    shared = normal(rng, ranks[0], size)

    def gate(rank):
        factors = [normal(rng, rank, size), shared if tied else normal(rng, rank, size)]
        recurrent = low_rank_plus_diagonal(*factors, normal(rng, size)) if diagonal else LowRank(*factors)
        return Gate(Dense(normal(rng, input_size, size)), recurrent, Bias(normal(rng, size)))

    xs = jnp.asarray(rng.integers(0, input_size, (steps, batch))) if symbols else normal(rng, steps, batch, input_size)
    return GRUParams(*(gate(rank) for rank in ranks)), normal(rng, batch, size), xs


def results(run, params, h, xs):
    """(results, gradients to params, h and float inputs) of `run(params, h, xs)`, with a loss that every number moves by another amount."""

    def loss(params, h, xs):
        out = run(params, h, xs)
        return weighted_sum(out), out

    floats = (0, 1, 2) if jnp.issubdtype(xs.dtype, jnp.floating) else (0, 1)
    (_, out), gradients = jax.jit(jax.value_and_grad(loss, argnums=floats, has_aux=True))(params, h, xs)
    return out, gradients


def assert_equals_plain(params, h, xs, mask=None, outputs="all"):
    """Results and gradients, none of which is trivial."""
    expected, its_gradients = results(lambda *a: recur(gru, *a, mask, outputs=outputs), params, h, xs)
    actual, gradients = results(lambda *a: sequence(gru, *a, mask, outputs=outputs, interpret=INTERPRET), params, h, xs)
    for a, e in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, e, rtol=0, atol=1e-6, equal_nan=False)
        assert np.any(e)
    assert_gradients_equal(gradients, its_gradients)


def assert_gradients_equal(actual, expected):
    for a, e in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, e, rtol=0, atol=1e-5 * np.max(np.abs(e)), equal_nan=False)
        assert np.any(e)


def test_low_rank_of_three_ranks():
    assert_equals_plain(*network(10, (3, 1, 5), 2, 3, 4, diagonal=False))


def test_low_rank_plus_diagonal_tied_with_symbols_and_the_last_output_of_several_lengths():
    params, h, symbols = network(70, (9, 9, 9), 4, 9, 5, diagonal=True, tied=True, symbols=True)
    lengths = np.array([5, 1, 0, 3, 5, 2, 4, 5, 1])
    assert_equals_plain(params, h, symbols, jnp.asarray(np.arange(5)[:, None] < lengths), "last")


def test_steps_left_out_in_the_middle_and_nan_in_the_padding():
    params, h, xs = network(10, (3, 3, 3), 2, 3, 4, diagonal=True)
    mask = jnp.asarray([[1, 0, 1], [0, 1, 1], [1, 1, 1], [1, 0, 0]], bool)
    assert_equals_plain(params, h, jnp.where(mask[:, :, None], xs, jnp.nan), mask)


def test_parts_exchange_their_sums(monkeypatch):
    """The state split in two: in interpret mode the parts are threads of one block, which race if one overruns the other."""
    monkeypatch.setattr(plans, "SHARED_BYTES", plans.KernelPlan(128, 40, 2).shared_bytes)
    assert plans.plan_for(100, 34).parts == 2
    assert_equals_plain(*network(100, (34, 34, 34), 1, 2, 3, diagonal=True))
    assert not interpreter.get_races().races_found


def test_models_train_together():
    params, h, xs = jax.tree.map(lambda *a: jnp.stack(a), *(network(6, (2, 2, 2), 1, 2, 3, True), network(6, (2, 2, 2), 1, 2, 3, True)))
    params = jax.tree.map(lambda a: a * jnp.arange(1.0, 3.0).reshape(2, *(1,) * (a.ndim - 1)), params)

    def gradient(run, params):
        return jax.grad(lambda p, h, xs: weighted_sum(run(p, h, xs)))(params, h[0], xs[0])

    expected = jax.jit(jax.vmap(partial(gradient, partial(recur, gru))))(params)
    actual = jax.jit(jax.vmap(partial(gradient, partial(sequence, gru, interpret=INTERPRET))))(params)
    assert_gradients_equal(actual, expected)


@pytest.mark.parametrize(("size", "rank", "parts"), [(128, 24, 1), (256, 64, 2)])
def test_lowers_for_cuda(size, rank, parts):
    """Both kernels pass the checks of Pallas and Mosaic at real sizes, with the factors in shared memory, for two models together."""
    shapes = jax.eval_shape(lambda: network(size, (rank,) * 3, 1, 20, 784, True))
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct((2, *a.shape), a.dtype), shapes)
    assert plans.plan_for(size, rank).parts == parts
    gradient = jax.grad(lambda p, h, xs: weighted_sum(sequence(gru, p, h, xs)), argnums=(0, 1, 2))
    text = jax.jit(jax.vmap(gradient)).trace(*shapes).lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("mosaic_gpu_v2") == 2


def relative_error(actual, expected):
    """The largest norm of the difference of two arrays, over the norm of the second."""
    pairs = zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True)
    return max(float(np.linalg.norm(np.float64(a) - np.float64(e)) / np.linalg.norm(np.float64(e))) for a, e in pairs)


ON_GPU = {
    "one block": ((128, (24,) * 3, 1, 20, 784, True), {}),
    "one block, registers in memory": ((256, (24,) * 3, 1, 20, 784, True), {}),
    "two blocks": ((256, (64,) * 3, 3, 20, 200, False), {"tied": True}),
    "padded": ((100, (20, 9, 3), 4, 9, 60, True), {"symbols": True}),
}


def check_on_gpu(name, interpret):
    """Assert that the kernel rounds no more than the plain path does by default, and gives the same numbers again. Print the errors."""
    arguments, options = ON_GPU[name]
    arrays = network(*arguments, **options)
    with jax.default_matmul_precision("highest"):
        expected = results(partial(recur, gru), *arrays)
    by_default = results(partial(recur, gru), *arrays)
    actual, again = (results(partial(sequence, gru, interpret=interpret), *arrays) for _ in range(2))
    chex.assert_trees_all_equal(actual, again)
    for what, own, plain, exact in zip(("values", "gradients"), actual, by_default, expected, strict=True):
        errors = relative_error(own, exact), relative_error(plain, exact)
        print(f"{name}: relative errors of {what}: kernel {errors[0]:.1e}, plain {errors[1]:.1e}")
        assert errors[0] < max(1.5 * errors[1], 1e-5)


@pytest.mark.skipif(not hardware.on_hopper(), reason="needs an NVIDIA GPU of compute capability 9.0")
@pytest.mark.parametrize("name", ON_GPU)
def test_on_a_gpu_it_rounds_as_the_plain_path_does(name):
    check_on_gpu(name, interpret=False)


def test_the_check_for_gpus_passes_in_interpret_mode(monkeypatch):
    monkeypatch.setitem(ON_GPU, "small", ((10, (3,) * 3, 2, 3, 4, True), {}))
    check_on_gpu("small", INTERPRET)


def test_operands_are_rounded_to_the_nearest_number_of_the_tensor_cores():
    a = np.float32(np.random.default_rng(0).standard_normal(1000))
    kept = np.asarray(persistent._to_tf32(jnp.asarray(a))).view(np.int32) & ~0x1FFF  # the tensor cores drop 13 bits
    errors = np.abs(kept.view(np.float32) - a)
    assert np.all(errors <= np.abs(a - np.asarray(jax.lax.reduce_precision(a, exponent_bits=8, mantissa_bits=10))))
    assert np.isnan(persistent._to_tf32(jnp.float32(jnp.nan)))


CONFIGURED = {
    "low rank": {"parametrization": "low_rank"},
    "plus diagonal, tied": {"tied": True},
    "wide": {"size": 257, "rank": 4},
    "dense": {"parametrization": "dense"},
    "layers": {"layers": 2},
    "another cell": {"cell": "gru_reset_after"},
    "weight norm": {"weight_norm": True},
}


@pytest.mark.parametrize("name", CONFIGURED)
def test_what_is_said_to_suit_the_kernel_is_what_it_takes(name, monkeypatch):
    """A command on a Hopper GPU recommends the kernel for configurations that it then accepts, and for no others."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    config = ModelConfig(**{"size": 10, "rank": 3, **CONFIGURED[name]})
    shapes = jax.eval_shape(lambda: config.build(1, 2, "last").init(jax.random.key(0), jnp.zeros((2, 3, 1))))
    model = replace(config, loop=SequenceLoopConfig(kind="kernel")).build(1, 2, "last")
    try:
        jax.jit(model.apply).trace(shapes, jnp.zeros((2, 3, 1))).lower(lowering_platforms=("cuda",))
        accepted = True
    except UsageError:
        accepted = False
    assert accepted == suits_kernel(config)


def test_dropout_large_ranks_and_other_networks_do_not_suit_the_kernel():
    dropped, large = ModelConfig(size=10, rank=3, output_dropout=0.5), ModelConfig(size=plans.MAX_SIZE, rank=plans.MAX_RANK + 1)
    assert suits_kernel(replace(large, matrices=replace(large.matrices, rank=plans.MAX_RANK)))
    assert not any(map(suits_kernel, (dropped, large, HighwayConfig())))


def test_everything_that_is_accepted_fits_shared_memory():
    for size in range(1, plans.MAX_SIZE + 1):
        for rank in range(1, plans.MAX_RANK + 1):
            assert plans.plan_for(size, rank).parts <= 4


STACK = stacked(CELLS["gru"], 2)
REFUSED = {
    "cell gru_reset_after": {"step": gru_reset_after},
    "a stack of layers": {"step": STACK.step, "change": lambda p, h, xs: (StackParams((p, p)), (h, h), xs)},
    "inputs of type Weighted": {"change": lambda p, h, xs: (p, h, Weighted(jnp.zeros((2, 2), int), jnp.ones((2, 2))))},
    "recurrent matrix Dense": {"change": lambda p, h, xs: (p._replace(reset=p.reset._replace(recurrent=Dense(jnp.eye(4)))), h, xs)},
    "size 257": {"size": 257},
    "rank 65": {"rank": 65, "size": 70},
    "numbers of type float16": {"change": lambda p, h, xs: (p, h.astype(jnp.float16), xs)},
    "outputs 'info'": {"outputs": "info"},
    r"a state of shape \(4,\) with inputs of shape \(2, 1\), as those of a single sequence .*": {
        "change": lambda p, h, xs: (p, h[0], xs[:, 0])
    },
    "a sequence of no steps": {"change": lambda p, h, xs: (p, h, xs[:0])},
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refuses_in_one_line(reason, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as for users, whom no type check stops before
    case = {"step": gru, "size": 4, "rank": 2, "outputs": "all", "change": lambda *a: a} | REFUSED[reason]
    arguments = case["change"](*network(case["size"], (case["rank"],) * 3, 1, 2, 2, True))
    with pytest.raises(
        UsageError,
        match=f"^the GRU kernel does not take {reason}: expected .*choose loop 'fast' \\(in configurations recurrence 'fast'\\)$",
    ):
        sequence(case["step"], *arguments, outputs=case["outputs"])
