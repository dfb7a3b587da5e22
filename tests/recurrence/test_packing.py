"""Packed batches: fewer rows in later segments, and the same values and gradients in every loop, cell and parametrization."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from table import Row, assert_close, every_kind_of_state, network, weighted_sum

from lrpt.errors import UsageError
from lrpt.losses import cross_entropy
from lrpt.matrices import Dense
from lrpt.networks.dropout import Masked
from lrpt.networks.sequence_model import ModelConfig, SequenceModel
from lrpt.pytrees import register_fields
from lrpt.recurrence import LOOPS, Tuning, recur
from lrpt.recurrence.packing import PARTS, PARTS_WITH_RESIDUALS, Packing, packed, row_counts

STEPS, ROWS = 9, 8
LENGTHS = np.array([2, 9, 0, 5, 1, 3, 9, 4])
MASK = np.arange(STEPS)[:, None] < LENGTHS
MASK[1, 3] = MASK[0, 7] = False  # holes in the middle and at the start


@pytest.fixture(autouse=True)
def short_segments(monkeypatch):
    monkeypatch.setattr("lrpt.recurrence.packing.SEGMENT", 2)
    monkeypatch.setattr("lrpt.recurrence.packing.PARTS", 4)


def long_batch(row):
    net = network(row)
    rng = np.random.default_rng(1)
    carry = jax.tree.map(lambda h: jnp.asarray(rng.standard_normal((ROWS, *h.shape[1:])) / 2, h.dtype), net.carry)
    return net, carry, jnp.asarray(rng.standard_normal((STEPS, ROWS, net.xs.shape[-1])), jnp.float32)


@partial(jax.jit, static_argnames=("cell", "loop", "pack", "kinds"))
def results(cell, params, carry, xs, loop, pack, kinds):
    """((loss, (last carry, outputs) of each kind), gradients to params, carry and inputs)."""

    def loss(params, carry, xs):
        found = [recur(cell.step, params, carry, xs, jnp.asarray(MASK), outputs=o, loop=loop, tuning=Tuning(pack=pack)) for o in kinds]
        return weighted_sum(found), found

    return jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True)(params, carry, xs)


@pytest.mark.slow
@every_kind_of_state
def test_packed_equals_padded(row):
    net, carry, xs = long_batch(row)
    of = partial(results, net.cell, net.params, carry, xs, kinds=("info",))
    assert_close(of("fast", "always"), of("plain", "never"), atol=2e-5)


@pytest.mark.parametrize("pack", ["always", "never"])
def test_hessian_vector_products(pack):
    """Forward mode over reverse mode passes the segments of a masked sequence."""
    net, carry, xs = long_batch(Row("gru", "low_rank"))

    def product(loop, pack):
        def loss(params):
            return weighted_sum(
                recur(net.cell.step, params, carry, xs, jnp.asarray(MASK), outputs="last", loop=loop, tuning=Tuning(pack=pack))
            )

        return jax.jvp(jax.grad(loss), (net.params,), (net.params,))[1]

    assert_close(product("fast", pack), product("plain", "never"), atol=2e-5)


def test_outputs_of_the_fast_loop():
    net, carry, xs = long_batch(Row("gru", "low_rank"))
    of = partial(results, net.cell, net.params, carry, xs, kinds=("all",))
    assert_close(of("fast", "always"), of("plain", "never"), atol=2e-5)


@pytest.mark.parametrize(("loop", "pack"), [("plain", "never"), ("plain", "always"), ("fast", "never"), ("fast", "always")])
def test_random_keys_reach_the_cell_through_masked_inputs(loop, pack):
    """Up to the length of a row, outputs are those of a sequence without padding."""
    rng = np.random.default_rng(0)
    kernel, h, xs = (jnp.asarray(rng.standard_normal(shape), jnp.float32) for shape in ((3, 3), (ROWS, 3), (STEPS, ROWS, 3)))
    keys, counted = jax.random.split(jax.random.key(0), (STEPS, ROWS)), jnp.asarray(np.arange(STEPS)[:, None] < LENGTHS)

    def step(matrix, h, x):
        key, v = x
        noise = jax.vmap(lambda key: jax.random.normal(key, (3,)))(key)
        h = jnp.tanh(matrix.apply(h) + v + noise)
        return h, (h, None)

    def loss(kernel, xs, mask, **how):
        _, ys = recur(step, Dense(kernel), h, (keys, xs), mask, **how)
        ys = jnp.where(counted[..., None], ys, 0)
        return weighted_sum(ys), ys

    of = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)
    assert_close(of(kernel, xs, counted, loop=loop, tuning=Tuning(pack=pack)), of(kernel, xs, None), atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
def test_every_loop_and_every_kind_of_output(loop):
    net, carry, xs = long_batch(Row("lstm", "low_rank_plus_diagonal", tied=True))
    of = partial(results, net.cell, net.params, carry, xs, kinds=("all", "last", "info"))
    assert_close(of(loop, "always"), of("plain", "never"), atol=2e-5)


def test_rows_are_sorted_and_counted():
    counts = row_counts(ROWS, "always", 4)
    assert counts == (0, 2, 4, 6, 8)
    packing = Packing.of(jnp.pad(jnp.asarray(MASK), ((0, 1), (0, 0))), counts, 2)
    assert [int(i) for i in packing.order] == [1, 6, 3, 7, 5, 0, 4, 2]
    assert [counts[i] for i in packing.numbers] == [8, 6, 4, 2, 2]  # rows left: 7, 5, 3, 2, 2


def test_a_batch_of_two_is_sorted_too():
    """The shorter row stands first; a step adds its input to the state."""
    xs, mask = jnp.arange(1.0, 13).reshape(6, 2, 1), jnp.arange(6)[:, None] < jnp.array([[1, 5]])
    end, ys = recur(lambda _, h, x: (h + x, (h + x, None)), None, jnp.zeros((2, 1)), xs, mask, tuning=Tuning(pack="always"))
    np.testing.assert_array_equal(end[:, 0], [1, 2 + 4 + 6 + 8 + 10])
    np.testing.assert_array_equal(ys[..., 0], np.where(mask, np.cumsum(xs[..., 0], 0), 0))


def test_a_row_that_ends_with_a_segment_is_not_in_the_next_one():
    mask = jnp.arange(6)[:, None] < jnp.array([[2, 2, 2, 2, 4, 4, 6, 6]])
    packing = Packing.of(mask, (0, 2, 4, 6, 8), 2)
    assert [(0, 2, 4, 6, 8)[i] for i in packing.numbers] == [8, 4, 2]


@pytest.mark.parametrize(
    ("rows", "pack", "counts"),
    [(16, "auto", 9), (8, "auto", 9), (7, "auto", 2), (4, "auto", 2), (4, "always", 5), (2, "always", 3), (64, "never", 2)],
)
def test_small_batches_are_packed_when_asked_only(rows, pack, counts, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert len(row_counts(rows, pack, PARTS)) == counts


def test_branches_that_store_residuals_are_fewer(monkeypatch):
    """The memory of a switch is the sum of its branches, so loops that do not run segments again have quarters of the batch."""
    asked = []
    monkeypatch.setattr("lrpt.recurrence.packing.PARTS", PARTS)
    monkeypatch.setattr(
        "lrpt.recurrence.packing.row_counts", lambda rows, pack, parts: asked.append(parts) or row_counts(rows, pack, parts)
    )
    for loop in LOOPS:
        xs = jnp.ones((6, 8, 1))
        recur(lambda _, h, x: (h + x, (h, None)), None, xs[0], xs, xs[..., 0] > 0, loop=loop, tuning=Tuning(pack="always"))
    assert dict(zip(LOOPS, asked, strict=True)) == {"fast": PARTS, "plain": PARTS_WITH_RESIDUALS, "checkpoint": PARTS_WITH_RESIDUALS}


def test_accelerators_do_not_pack_by_rule(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert row_counts(64, "auto", PARTS) == (0, 64)
    assert len(row_counts(64, "always", PARTS)) == 9


@pytest.mark.parametrize(("steps", "length"), [(9, 9), (16, 16), (17, 9), (64, 16), (65, 13)])
def test_segments_of_a_sequence_have_one_length_of_at_most_sixteen_steps(steps, length, monkeypatch):
    """The fewest such segments, with less than a step of padding for each."""
    monkeypatch.setattr("lrpt.recurrence.packing.SEGMENT", 16)
    seen = set()

    def segment(parameters, carry, xs_and_mask):
        seen.add(xs_and_mask[1].shape)
        return carry, xs_and_mask[0]

    xs, mask = jnp.ones((steps, 8, 1)), jnp.ones((steps, 8), bool)
    packed(segment, None, xs[0], xs, mask, Tuning(pack="never"), recompute=False)
    assert seen == {(length, 8)}


@pytest.mark.parametrize(("steps", "pack", "segments"), [(64, "auto", True), (63, "auto", False), (6, "auto", False), (6, "always", True)])
def test_sequences_of_64_steps_are_packed_by_rule_and_shorter_ones_when_asked_only(steps, pack, segments, monkeypatch):
    found = []
    monkeypatch.setattr("lrpt.recurrence.over_time.packed", lambda *args, **how: found.append(args) or (None, None))
    xs = jnp.ones((steps, 8, 1))
    recur(lambda _, h, x: (h + x, (h, None)), None, xs[0], xs, xs[..., 0] > 0, tuning=Tuning(pack=pack))
    assert bool(found) == segments


@pytest.mark.parametrize("loop", LOOPS)
def test_a_step_that_needs_all_rows_is_told_about_packing(loop):
    def step(params, h, x):
        h = h + x + params
        return h, (h, {})

    memory, carry, xs = jnp.ones((ROWS, 3)), jnp.zeros((ROWS, 3)), jnp.zeros((STEPS, ROWS, 3))
    with pytest.raises(UsageError, match=r"for [1-7] of the 8 rows of a padded batch.*or turn packing off with pack='never' .*add got"):
        recur(step, memory, carry, xs, jnp.asarray(MASK), loop=loop, tuning=Tuning(pack="always"))
    assert recur(step, memory, carry, xs, jnp.asarray(MASK), loop=loop, tuning=Tuning(pack="never"))[1].shape == xs.shape


def test_a_symbolic_number_of_rows_has_no_parts():
    """All rows, or none for segments in which all rows are padding."""
    (rows,) = export.symbolic_shape("rows")
    assert row_counts(rows, "always", PARTS) == (0, rows)


@pytest.mark.slow
def test_a_readout_sees_rows_that_are_left():
    """Its operator runs in every branch with the branch's rows, and its dropout mask follows the rows of the batch."""
    net, carry, xs = long_batch(Row("gru", "low_rank"))
    rng = np.random.default_rng(2)
    width, seen = net.carry.shape[-1], []

    class Seen(Dense):
        def apply(self, v):
            seen.append(v.shape[1])
            return super().apply(v)

    register_fields(Seen)
    keep = jnp.asarray(rng.random((ROWS, width)), jnp.float32)
    kernel = jnp.asarray(rng.standard_normal((width, 3)), jnp.float32)

    def loss(kernel, pack, loop):
        readout = Masked(Seen(kernel), keep)
        mask = jnp.asarray(MASK)
        _, ys = recur(net.cell.step, net.params, carry, xs, mask, tuning=Tuning(pack=pack), loop=loop, readout=readout)
        return jnp.sum(jnp.sin(ys), where=mask[..., None])

    for loop in LOOPS:
        seen.clear()
        actual = jax.value_and_grad(loss)(kernel, "always", loop)
        assert set(seen) == {2, 4, 6, 8}
        assert_close(actual, jax.value_and_grad(loss)(kernel, "never", loop), atol=1e-5)


@pytest.mark.slow
def test_networks_with_every_dropout_and_a_carried_state():
    symbols = jnp.asarray(np.random.default_rng(3).integers(0, 7, (ROWS, STEPS)))

    def found(pack, loop):
        config = ModelConfig("lstm", 6, rank=3, embedding=6, tie_embedding=True, pack=pack, recurrence=loop, state_dropout=0.3)
        config = config.__class__(**{**config.__dict__, "input_dropout": 0.3, "output_dropout": 0.3, "word_dropout": 0.3})
        model = SequenceModel(config, 7, 7, "all")
        params = model.init(jax.random.key(0), symbols)

        def loss(params):
            from lrpt.networks.protocol import Start

            carry = model.apply(params, symbols, method="advance")[1]
            start = Start(carry, jnp.asarray(False))
            predictions, end = model.apply(
                params, symbols, jnp.asarray(MASK.T), start, train=True, rngs={"dropout": jax.random.key(1)}, method="advance"
            )
            return jnp.sum(cross_entropy(predictions, symbols), where=MASK.T), end

        return jax.value_and_grad(loss, has_aux=True)(params)

    expected = found("never", "plain")
    for loop in LOOPS:
        assert_close(found("always", loop), expected, atol=2e-5)


@pytest.mark.slow
def test_gradients_of_gradients_and_vmap_over_models():
    net, carry, xs = long_batch(Row("gru", "low_rank_plus_diagonal"))

    def gradient(pack, loop, scale):
        def loss(xs):
            found = recur(net.cell.step, net.params, carry, scale * xs, jnp.asarray(MASK), loop=loop, tuning=Tuning(pack=pack))
            return weighted_sum(found)

        return jax.grad(lambda xs: jnp.sum(jnp.sin(jax.grad(loss)(xs))))(xs)

    scales = jnp.asarray([1.0, 0.5])
    packed, padded = (jax.jit(jax.vmap(partial(gradient, *how)))(scales) for how in (("always", "fast"), ("never", "plain")))
    assert_close(packed, padded, atol=1e-4)


@pytest.mark.slow
def test_forward_mode_through_the_plain_loop():
    net, carry, xs = long_batch(Row("gru", "low_rank"))

    def of(xs, pack):
        return recur(net.cell.step, net.params, carry, xs, jnp.asarray(MASK), tuning=Tuning(pack=pack))

    packed, padded = (jax.jvp(partial(of, pack=pack), (xs,), (jnp.ones_like(xs),)) for pack in ("always", "never"))
    assert_close(packed, padded, atol=1e-5)
