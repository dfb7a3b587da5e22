"""Variable computation: the mask, the scheduler's gradient, the limits, and the steps that really compute less."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from table import BATCH, SIZE, SPEC, Row, assert_close, assert_equal, by_name, network, parameters_module, weighted_sum

from lrpt.cells import CELLS, CellSpec, block_step, blocks, hard_step, variable_cell
from lrpt.errors import UsageError
from lrpt.matrices import Bias, Dense
from lrpt.parametrizations import MatrixConfig, Parameters

BASE = {"vcrnn": "elman", "vcgru": "gru", "vclstm": "lstm"}
KINDS = ("dense", "low_rank", "low_rank_plus_diagonal")
KEY = jax.random.key(0)
every_unit = pytest.mark.parametrize("name", BASE)
every_kind = pytest.mark.parametrize("kind", KINDS)


def unit(name, kind="low_rank_plus_diagonal", sharpness=1.0):
    net = network(Row(name, kind))
    return net._replace(params=net.params._replace(sharpness=jnp.float32(sharpness)))


def always(params, m):
    """The same parameters with a schedule that is m, up to rounding, at every step."""
    nothing, bias = Dense(jnp.zeros((SIZE, 1))), np.log(m / (1 - m)) if m < 1 else 40.0
    return params._replace(scheduler=params.scheduler._replace(input=nothing, recurrent=nothing, bias=Bias(jnp.full(1, bias))))


@pytest.mark.parametrize("epsilon", [1e-5, 0.05, 0.3])
def test_the_mask_is_rounded_outside_its_band(epsilon):
    net = unit("vcrnn", sharpness=1.7)
    _, (_, info) = variable_cell("vcrnn", epsilon).step(net.params, net.carry, net.xs[0])
    w = {
        f"scheduler.{role}": np.asarray(*jax.tree.leaves(getattr(net.params.scheduler, role)), np.float64)
        for role in ("input", "recurrent", "bias")
    }
    _, m, mask = oracles.variable(w | {"sharpness": 1.7}, np.asarray(net.carry, np.float64), np.asarray(net.xs[0], np.float64), epsilon)
    assert_close((info.proportion, info.mask), (m, mask))
    band = np.log((1 - epsilon) / epsilon) / 1.7
    away = np.arange(1, SIZE + 1) - m[:, None] * SIZE
    assert_equal(np.asarray(info.mask)[np.abs(away) > band], (away < 0)[np.abs(away) > band].astype(np.float32))


@every_unit
def test_the_scheduler_learns_through_the_band_alone(name):
    def gradient(params):
        net = unit(name)
        loss = jax.grad(lambda scheduler: weighted_sum(net.cell.step(params._replace(scheduler=scheduler), net.carry, net.xs[0])[1][0]))
        return np.concatenate([np.ravel(a) for a in jax.tree.leaves(loss(params.scheduler))])

    assert np.all(gradient(unit(name, sharpness=1.0).params) != 0)
    # 2.5 is between two dimensions, and with this sharpness both are outside the band.
    assert np.all(gradient(always(unit(name, sharpness=30.0).params, 2.5 / SIZE)) == 0)


@every_unit
@every_kind
def test_infinite_sharpness_is_the_hard_step(name, kind):
    net = unit(name, kind, sharpness=1e6)
    assert_close(hard_step(name, "floor")(net.params, net.carry, net.xs[0]), net.cell.step(net.params, net.carry, net.xs[0]))


@every_unit
def test_a_schedule_of_one_is_the_unit(name):
    net = unit(name, sharpness=30.0)
    params = always(net.params, 1.0)
    # The last dimension is at m n itself, where eq. 8 gives one half: the soft mask is half a dimension short.
    _, (_, soft) = net.cell.step(params, net.carry, net.xs[0])
    assert_equal(soft.mask, jnp.tile(jnp.array([1] * (SIZE - 1) + [0.5]), (BATCH, 1)))
    carry, (y, info) = hard_step(name)(params, net.carry, net.xs[0])
    assert_equal(info.mask, jnp.ones((BATCH, SIZE)))
    expected, (expected_y, gates) = CELLS[BASE[name]].step(params.unit, net.carry, net.xs[0])
    assert_close((carry, y, by_name(info.unit)), (expected, expected_y, by_name(gates)))


def partial_update(name, params, carry, x, d):
    """Section 4.1: the unit with upper left d x d blocks on the first d components, the others as they were."""
    w = {key: np.asarray(*jax.tree.leaves(op), np.float64) for key, op in params}
    unit = {key.removeprefix("unit."): a[:d, :d] if a.ndim == 2 else a[:d] for key, a in w.items() if key.startswith("unit.")}
    first = jax.tree.map(lambda a: np.asarray(a[:d], np.float64), carry)
    after, _ = oracles.ORACLES[BASE[name]].step(unit, first, np.asarray(x[:d], np.float64))
    return jax.tree.map(lambda new, old: np.concatenate([new, old[d:]]), after, carry)


@every_unit
@every_kind
def test_hard_steps_are_partial_updates(name, kind):
    net = unit(name, kind)
    carry, (_, info) = hard_step(name)(net.params, net.carry, net.xs[0])
    sizes = np.ceil(np.asarray(info.proportion) * SIZE).astype(int)
    assert_equal(info.mask.sum(-1), sizes.astype(np.float32))
    assert len(set(sizes)) > 1
    operators = net.dense().operators()
    for b, d in enumerate(sizes):
        row = jax.tree.map(lambda a, b=b: a[b], net.carry)
        actual = jax.tree.map(lambda a, b=b: a[b], carry)
        assert_close(actual, partial_update(name, operators, row, net.xs[0][b], d), rtol=5e-6, atol=5e-6)


@pytest.mark.slow
@every_unit
@pytest.mark.parametrize("kind", [*KINDS, "weight_norm"])
@pytest.mark.parametrize("rounding", ["ceil", "floor"])
def test_steps_by_blocks_equal_hard_steps(name, kind, rounding):
    net = network(Row(name, "dense", weight_norm=True)) if kind == "weight_norm" else unit(name, kind)
    step = jax.jit(block_step(name, rounding))
    for sizes in ((SIZE,), (1, 3, SIZE)):
        cut = blocks(net.params, sizes)
        for b in range(BATCH):
            carry, x = jax.tree.map(lambda a, b=b: a[b : b + 1], (net.carry, net.xs[0]))
            expected, (y, info) = hard_step(name, rounding)(net.params, carry, x)
            assert_close(step(cut, carry, x), (expected, (y, info._replace(unit=()))), rtol=2e-6)


def test_the_smallest_block_that_fits_is_used():
    """A larger one would read weights that are not numbers."""
    net = unit("vcrnn", "dense")
    cut = blocks(always(net.params, 0.5), (3, SIZE))
    spoiled = jax.tree.map(lambda a: jnp.full_like(a, jnp.nan), cut.units[1])
    cut = type(cut)(cut.scheduler, (cut.units[0], spoiled), cut.sizes)
    carry, _ = jax.jit(block_step("vcrnn", "ceil"))(cut, net.carry[:1], net.xs[0, :1])
    assert np.all(np.isfinite(carry))


def test_blocks_are_chosen_by_exact_counts_in_half_precision():
    """257 dimensions, a number that bfloat16 does not have, do not fit a block of 256. Their new state is tanh(0)."""
    n = 2 * 257
    shapes = jax.eval_shape(Parameters(CELLS["vcrnn"].template(CellSpec(n, n)), MatrixConfig(), MatrixConfig()).init_with_output, KEY)[0]
    params = jax.tree.map(lambda a: jnp.zeros(a.shape, jnp.bfloat16), shapes)  # a schedule of 1/2
    h = jnp.ones((1, n), jnp.bfloat16)
    carry, (_, info) = jax.jit(block_step("vcrnn", "ceil"))(blocks(params, (256, n)), h, h)
    assert np.sum(info.mask > 0) == 257
    assert_equal(carry, h - info.mask)


def test_the_sharpness_is_a_setting_that_can_be_changed():
    template, module = parameters_module(Row("vcrnn", "dense"))
    variables = jax.jit(module.init)(jax.random.key(0))
    assert_equal(variables["settings"], {"sharpness": jnp.float32(1.0)})
    changed = module.apply({**variables, "settings": {"sharpness": jnp.float32(0.3)}})
    assert changed.sharpness == jnp.float32(0.3)
    assert module.apply({"params": variables["params"]}).sharpness == 1
    assert isinstance(template.scheduler.bias.initial, float)


@pytest.mark.parametrize(("name", "squares"), [("vcrnn", 2), ("vcgru", 6)])
def test_parameters_are_the_papers_and_biases(name, squares):
    n = 11
    module = Parameters(CELLS[name].template(CellSpec(n, n)), MatrixConfig(), MatrixConfig())
    shapes = jax.eval_shape(module.init, jax.random.key(0))["params"]
    assert sum(a.size for a in jax.tree.leaves(shapes)) == squares * n * n + 2 * n + 1 + squares // 2 * n


def test_bad_input_is_refused():
    net = unit("vcrnn", "dense")
    with pytest.raises(UsageError, match=r"epsilon is 0\.5"):
        variable_cell("vcrnn", 0.5)
    for make in (hard_step, partial(block_step, rounding="ceil"), variable_cell):
        with pytest.raises(UsageError, match="'vcrrn': choose from vcrnn, vcgru, vclstm"):
            make("vcrrn")
    with pytest.raises(UsageError, match="rounding is 'up'"):
        hard_step("vcrnn", "up")
    for sizes in ((), (0, SIZE), (2, 2, SIZE), (2,)):
        with pytest.raises(UsageError, match=r"sizes is .*: give ascending sizes from 1 on"):
            blocks(net.params, sizes)
    with pytest.raises(UsageError, match=r"a batch of shape \(4,\)"):
        block_step("vcrnn", "ceil")(blocks(net.params, (SIZE,)), net.carry, net.xs[0])
    with pytest.raises(UsageError, match="vcgru has inputs of width 3"):
        CELLS["vcgru"].template(SPEC)


def test_another_threshold_is_another_cell():
    assert variable_cell("vcrnn") is CELLS["vcrnn"]
    assert isinstance(variable_cell("vcrnn", 0.01).step, partial)
    net = unit("vcrnn", "dense")
    masks = [variable_cell("vcrnn", *how).step(net.params, net.carry, net.xs[0])[1][1].mask for how in ((), (0.3,), (0.3, True))]
    assert np.any(masks[0] != masks[1])
    assert_equal(masks[1], masks[2])


@pytest.mark.parametrize("name", ["vcrnn", "vcgru", "vclstm"])
def test_a_schedule_with_a_cut_gradient_takes_the_state_as_a_constant(name):
    net = unit(name, "dense")

    def total(carry, cut):
        return variable_cell(name, cut=cut).step(net.params, carry, net.xs[0])[1][1].proportion.sum()

    full, cut = (jax.tree.leaves(jax.grad(total)(net.carry, cut)) for cut in (False, True))
    assert np.any(full[-1])
    assert not any(map(np.any, cut))
