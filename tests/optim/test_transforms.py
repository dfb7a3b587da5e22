"""Tests of each transformation against a loop in NumPy float64, written from its equation, and of the properties of a projection."""

from functools import cache, partial

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st

from lrpt.interop.linen import Linear
from lrpt.networks.sequence_model import ModelConfig, SequenceModel
from lrpt.optim import (
    by_part,
    clip_all_but_first_seven,
    clip_by_norm_or_shrink,
    clip_or_shrink,
    clip_parts_or_shrink,
    project_rows,
    recoveries,
    shrink_after,
)
from lrpt.optim.recipes import NO_EPS, RECIPES, rmsprop_2016
from lrpt.parametrizations import MatrixConfig
from lrpt.runs.named_arrays import from_named, to_named

LOW_RANK = ModelConfig(size=6, rank=2, parametrization="low_rank_plus_diagonal")
DENSE = ModelConfig(size=6, parametrization="dense")
LSTM = ModelConfig("lstm", size=6, rank=2)
NORMALIZED = ModelConfig(size=6, rank=2, parametrization="low_rank_plus_diagonal", weight_norm=True)


@cache
def template(config: ModelConfig):
    return jax.eval_shape(SequenceModel(config, 3, 3).init, jax.random.key(0), jnp.zeros((1, 2), jnp.int32))["params"]


def draw(config: ModelConfig, seed: int, scale: float = 1.0):
    """Draw normal numbers in the shapes of a network's parameters."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(scale * rng.standard_normal(leaf.shape), jnp.float32), template(config))


def as_float64(tree) -> dict[str, np.ndarray]:
    return {name: array.astype(np.float64) for name, array in to_named(tree).items()}


def assert_tree(tree, expected: dict[str, np.ndarray], rtol: float = 1e-6):
    for name, array in to_named(tree).items():
        np.testing.assert_allclose(array, expected[name], rtol=rtol, err_msg=name)


@pytest.mark.parametrize("eps", [1e-8, NO_EPS])
def test_rmsprop_is_the_rule_of_2016(eps):
    rule = rmsprop_2016(1e-3, eps)
    params = draw(LOW_RANK, 0)
    state, update = rule.init(params), jax.jit(rule.update)
    mean_square = {name: np.full(array.shape, 1e-3) for name, array in as_float64(params).items()}
    for seed, scale in enumerate([1e-4, 1.0, 1e-2, 0.0, 30.0], start=1):
        gradient = draw(LOW_RANK, seed, scale)
        change, state = update(gradient, state, params)
        for name, g in as_float64(gradient).items():
            mean_square[name] = 0.9 * mean_square[name] + 0.1 * g**2
        root = {name: np.sqrt(v + (eps if eps == 1e-8 else 0.0)) for name, v in mean_square.items()}
        assert_tree(change, {name: -1e-3 * g / root[name] for name, g in as_float64(gradient).items()})


def test_no_eps_changes_no_bit_of_an_ordinary_run_and_survives_a_gradient_that_stays_zero():
    values = jnp.asarray(10.0 ** np.linspace(-22, 4, 2000), jnp.float32)
    np.testing.assert_array_equal(values + jnp.float32(NO_EPS), values)

    rule, param = rmsprop_2016(1e-3, NO_EPS), jnp.ones(3)
    _, (state, *_) = jax.lax.scan(lambda s, _: (rule.update(jnp.zeros(3), s)[1], None), rule.init(param), length=3000)[::-1]
    assert np.all(np.asarray(state.nu) < 1e-37)
    change, _ = rule.update(jnp.array([0.0, 1e-25, 1.0]), (state, *rule.init(param)[1:]))
    assert np.all(np.isfinite(change))


@pytest.mark.parametrize(("scale", "max_norm"), [(1e-3, 1.0), (1.0, 1.0), (1e3, 1.0), (1.0, 3.0)])
def test_norm_clipping(scale, max_norm):
    rule, params, gradient = clip_by_norm_or_shrink(max_norm), draw(LOW_RANK, 0), draw(LOW_RANK, 1, scale)
    clipped, state = jax.jit(rule.update)(gradient, rule.init(params), params)
    named = as_float64(gradient)
    norm = np.sqrt(sum((g**2).sum() for g in named.values()))
    assert_tree(clipped, {name: g * max_norm / max(norm, max_norm) for name, g in named.items()})
    assert recoveries(state) == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
def test_a_norm_that_is_not_finite_becomes_a_shrink_of_all_parameters(bad):
    """3e38 is finite in float32, but its square is not."""
    rule = optax.chain(clip_by_norm_or_shrink(1.0, 0.1), rmsprop_2016(1e-3, 1e-8))
    params = draw(LOW_RANK, 0, scale=100.0)
    gradient = draw(LOW_RANK, 1)
    gradient["readout"]["kernel"] = gradient["readout"]["kernel"].at[0, 0].set(bad)
    shrunk, _ = clip_by_norm_or_shrink(1.0, 0.1).update(gradient, clip_by_norm_or_shrink().init(params), params)
    assert_tree(shrunk, to_named(jax.tree.map(lambda p: 0.1 * p, params)), rtol=0)

    update = jax.jit(rule.update)
    change, state = update(gradient, rule.init(params), params)
    assert recoveries(state) == 1
    for name, theta in as_float64(params).items():
        mean_square = 0.9e-3 + 0.1 * (0.1 * theta) ** 2
        np.testing.assert_allclose(to_named(change)[name], -1e-3 * 0.1 * theta / np.sqrt(mean_square + 1e-8), rtol=1e-6)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state))

    change, state = update(draw(LOW_RANK, 2), state, params)
    assert recoveries(state) == 1
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(change))


VARIABLE = ModelConfig("vcgru", 5, parametrization="dense", layers=2)


@pytest.mark.parametrize("large", ["scheduler", "rest"])
def test_parts_are_clipped_apart(large):
    """Each part to a norm of at most 2, so that a large gradient of one does not scale down the other."""
    rule, params = clip_parts_or_shrink(2.0, 0.1), draw(VARIABLE, 0)
    gradient = as_float64(draw(VARIABLE, 1, 1e-2))
    own = {name for name in gradient if ("scheduler" in name) == (large == "scheduler")}
    assert 0 < len(own) < len(gradient)
    gradient = {name: g * (1e4 if name in own else 1.0) for name, g in gradient.items()}
    norm = np.sqrt(sum((gradient[name] ** 2).sum() for name in own))
    tree = from_named(params, {name: g.astype(np.float32) for name, g in gradient.items()})
    change, state = rule.update(tree, rule.init(params), params)
    assert_tree(change, {name: g * 2.0 / norm if name in own else g for name, g in gradient.items()}, rtol=1e-5)
    assert recoveries(state) == 0


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_networks_without_schedulers_have_one_part(scale):
    params, gradient = draw(DENSE, 0), draw(DENSE, 1, scale)
    found, expected = (
        rule(1.0, 0.1).update(gradient, rule(1.0, 0.1).init(params), params) for rule in (clip_parts_or_shrink, clip_by_norm_or_shrink)
    )
    assert_tree(found[0], as_float64(expected[0]))
    assert set(by_part(gradient)) == {"rest"}
    assert set(by_part(draw(VARIABLE, 0))) == {"scheduler", "rest"}


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_part_that_is_not_finite_becomes_a_shrink_of_all_parameters(bad):
    rule, params = clip_parts_or_shrink(1.0, 0.1), draw(VARIABLE, 0)
    gradient = jax.tree_util.tree_map_with_path(lambda path, p: bad * p if "scheduler" in str(path) else p, params)
    change, state = rule.update(gradient, rule.init(params), params)
    assert_tree(change, {name: 0.1 * p for name, p in as_float64(params).items()})
    assert recoveries(state) == 1


def test_rules_that_need_the_parameters_say_so():
    gradient = draw(DENSE, 0)
    for rule in (clip_by_norm_or_shrink(), project_rows()):
        with pytest.raises(ValueError, match=r"needs the current parameters: call update\(gradients, state, params\)"):
            rule.update(gradient, rule.init(gradient))


def test_a_chain_that_does_not_recover_has_no_count():
    assert recoveries(optax.adam(1e-3).init(draw(DENSE, 0))) is None


@pytest.mark.parametrize(
    ("config", "unclipped"),
    [
        (LOW_RANK, [f"recurrent/{g}/right" for g in ("candidate", "update", "reset")] + ["recurrent/candidate/left"]),
        (DENSE, [f"recurrent/{g}/kernel" for g in ("candidate", "update", "reset")] + ["bias/candidate"]),
    ],
)
def test_the_first_seven_tensors_of_the_original_are_not_clipped(config, unclipped):
    unclipped = {f"recurrent/cell/{name}" for name in unclipped + [f"input/{g}/kernel" for g in ("candidate", "update", "reset")]}
    assert len(unclipped) == 7
    gradient, rule = draw(config, 1, scale=100.0), clip_all_but_first_seven(1.0)
    clipped, _ = jax.jit(rule.update)(gradient, rule.init(gradient), gradient)
    named = to_named(gradient)
    assert unclipped < named.keys()
    assert_tree(clipped, {name: g if name in unclipped else np.clip(g, -1, 1) for name, g in named.items()}, rtol=0)


def test_a_gate_that_is_called_input_is_no_input_matrix():
    """The LSTM's input gate has a bias and a recurrent matrix, which are clipped as those of the other gates."""
    gradient, rule = draw(LSTM, 1, scale=100.0), clip_all_but_first_seven(1.0)
    named = to_named(gradient)
    gates = ("candidate", "forget", "input", "output")
    kept = [f"input/{gate}/kernel" for gate in gates] + [f"recurrent/{gate}/right" for gate in gates] + ["recurrent/candidate/left"]
    unclipped = {f"recurrent/cell/{name}" for name in kept}
    assert unclipped < named.keys()
    clipped, _ = rule.update(gradient, rule.init(gradient), gradient)
    assert_tree(clipped, {name: g if name in unclipped else np.clip(g, -1, 1) for name, g in named.items()}, rtol=0)


def projected_loop(named: dict[str, np.ndarray], max_norm: float) -> dict[str, np.ndarray]:
    """Project row by row."""
    axis = {"kernel": 0, "left": 0, "right": 1}
    out = {name: array.copy() for name, array in named.items()}
    for name, array in out.items():
        kind = name.split("/")[-1]
        if kind in axis and array.ndim == 1:
            for i, g in enumerate(array):
                array[i] = np.sign(g) * min(abs(g), max_norm)
        elif kind in axis:
            for row in np.moveaxis(array, axis[kind], -1):
                row *= min(1.0, max_norm / np.sqrt((row**2).sum()))
    return out


@pytest.mark.parametrize("config", [LOW_RANK, DENSE, NORMALIZED], ids=["low_rank", "dense", "weight_norm"])
def test_rows_are_projected_after_the_update(config):
    params, change = draw(config, 0), draw(config, 1)
    rule = project_rows(2.0)
    replaced, _ = jax.jit(rule.update)(change, rule.init(params), params)
    new = {name: theta + as_float64(change)[name] for name, theta in as_float64(params).items()}
    expected = projected_loop(new, 2.0)
    np.testing.assert_allclose(
        np.concatenate([array.ravel() for array in to_named(optax.apply_updates(params, replaced)).values()]),
        np.concatenate([array.ravel() for array in expected.values()]),
        rtol=2e-6,
        atol=1e-6,
    )
    moved = [name for name in expected if not np.array_equal(expected[name], new[name])]
    assert {name.split("/")[-1] for name in moved} <= {"kernel", "left", "right"}
    assert "readout/kernel" in moved
    assert any("recurrent_scale/" in name for name in moved) == config.matrices.weight_norm


@jax.jit
def updated(params, change):
    change, _ = project_rows(10.0).update(change, optax.EmptyState(), params)
    return optax.apply_updates(params, change)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**31), log_scale=st.floats(-3, 3), config=st.sampled_from([LOW_RANK, NORMALIZED]))
def test_projection_is_idempotent_bounded_and_does_not_expand(seed, log_scale, config):
    start, u, v = draw(config, seed), draw(config, seed + 1, 10.0**log_scale), draw(config, seed + 2, 10.0**log_scale)
    x, y = updated(start, u), updated(start, v)
    assert_tree(updated(x, jax.tree.map(jnp.zeros_like, x)), to_named(x), rtol=1e-6)
    assert_tree(x, projected_loop(as_float64(x), 10.0 * (1 + 1e-6)), rtol=0)
    assert distance(x, y) <= distance(u, v) * (1 + 1e-5) + 1e-5


def distance(x, y) -> float:
    return np.sqrt(sum(np.square(a - b).sum() for a, b in zip(as_float64(x).values(), as_float64(y).values(), strict=True)))


def test_a_row_within_the_bound_keeps_its_update_to_the_bit():
    params, change = draw(LOW_RANK, 0, 0.1), draw(LOW_RANK, 1, 0.1)
    replaced, _ = project_rows(10.0).update(change, optax.EmptyState(), params)
    assert_tree(replaced, to_named(change), rtol=0)


@pytest.mark.parametrize("rule", [clip_by_norm_or_shrink(), clip_parts_or_shrink()], ids=["all", "parts"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(jnp.float16, 1e-3), (jnp.bfloat16, 4e-3), (jnp.float32, 1e-6)])
def test_norms_are_taken_in_float32(rule, dtype, tolerance):
    """The square of 300 overflows in float16. The norm of 100 of them is 3,000."""
    gradient = {"w": jnp.full(100, 300.0, dtype)}
    clipped, state = rule.update(gradient, rule.init(gradient), gradient)
    assert clipped["w"].dtype == dtype
    np.testing.assert_allclose(np.asarray(clipped["w"], np.float64), 0.1, rtol=tolerance)
    assert state.recoveries == 0


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_norms_of_rows_in_half_precision_do_not_overflow(dtype):
    """Squares of 5 summed 4,000 times exceed the largest number of float16."""
    params = {"kernel": jnp.full((4000, 2), 5.0, dtype)}
    optimizer = project_rows(100.0)
    updates, _ = optimizer.update(jax.tree.map(jnp.zeros_like, params), optimizer.init(params), params)
    assert updates["kernel"].dtype == dtype
    after = np.asarray(optax.apply_updates(params, updates)["kernel"], np.float64)
    np.testing.assert_allclose(np.linalg.norm(after, axis=0), 100.0, rtol=1e-2)


def test_zero_rows_stay_zero():
    zeros = jax.tree.map(jnp.zeros_like, draw(DENSE, 0))
    assert_tree(updated(zeros, zeros), to_named(zeros), rtol=0)


@pytest.mark.parametrize("params", [jnp.full(3, 100.0), {"w": jnp.ones((2, 2)), "b": jnp.ones(2)}], ids=["bare", "named otherwise"])
def test_parameters_without_a_known_matrix_are_refused(params):
    with pytest.raises(ValueError, match=r"finds no matrix among (an array|b, w): name the axis of their rows, as in axes=\{'w': 0\} if w"):
        project_rows(1.0).init(params)


def test_rows_of_your_own_matrices_lie_along_the_axis_that_you_name():
    theta = {"w": jnp.array([[3.0, 4.0], [0.3, 0.4]]), "b": jnp.full(2, 9.0)}
    rule = project_rows(1.0, {"w": -1})
    change, _ = rule.update(jax.tree.map(jnp.zeros_like, theta), rule.init(theta), theta)
    new = optax.apply_updates(theta, change)
    np.testing.assert_allclose(new["w"], [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)
    np.testing.assert_array_equal(new["b"], theta["b"])
    with pytest.raises(ValueError, match=r"b has shape \(2,\), and no rows: leave 'b' out of axes"):
        project_rows(1.0, {"b": -1}).update(theta, optax.EmptyState(), theta)


@pytest.mark.parametrize("kind", ["dense", "low_rank"])
def test_row_norms_of_a_weight_normalized_layer_are_clipped_by_themselves(kind):
    layer = Linear(3, MatrixConfig(kind, 2, weight_norm=True))
    start = layer.init(jax.random.key(0), jnp.ones((1, 4)))["params"]
    for params in (start, {"encoder": start}):
        optimizer = project_rows(1.0)
        change, _ = optimizer.update(jax.tree.map(jnp.zeros_like, params), optimizer.init(params), params)
        after = optax.apply_updates(params, change)
        assert_tree(after, projected_loop(as_float64(params), 1.0))
    norms, after = (jnp.concatenate(jax.tree.leaves(tree)) for tree in (start["scale"], after["encoder"]["scale"]))
    assert jnp.any(norms > 1)
    assert jnp.all(after <= 1)


def test_modules_of_yours_may_end_in_scale():
    """Only row norms of weight normalization are clipped by themselves."""
    params = {"lr_scale": {"Dense_0": {"kernel": jnp.full((2, 2), 3.0)}}}
    optimizer = optax.chain(project_rows(1.0))
    change, _ = optimizer.update(jax.tree.map(jnp.zeros_like, params), optimizer.init(params), params)
    np.testing.assert_allclose(optax.apply_updates(params, change)["lr_scale"]["Dense_0"]["kernel"], 0.5**0.5, rtol=1e-6)


def test_rows_of_stacked_matrices_are_those_of_each():
    kernels = {"kernel": 10.0 * jax.random.normal(jax.random.key(0), (5, 4, 8))}
    rule, still = project_rows(1.0, {"kernel": -2}), jnp.zeros((5, 4, 8))
    together = rule.update({"kernel": still}, rule.init(kernels), kernels)[0]["kernel"]
    each = [rule.update({"kernel": still[0]}, optax.EmptyState(), {"kernel": one})[0]["kernel"] for one in kernels["kernel"]]
    np.testing.assert_allclose(together, jnp.stack(each), rtol=1e-6)
    assert np.linalg.norm(kernels["kernel"] + together, axis=1).max() <= 1 + 1e-6


BOUNDED = (clip_all_but_first_seven, clip_by_norm_or_shrink, clip_or_shrink, clip_parts_or_shrink, project_rows)
by_name = pytest.mark.parametrize("transform", BOUNDED, ids=lambda transform: transform.__name__)


@by_name
@pytest.mark.parametrize("bound", [0.0, -1.0, float("nan"), np.float32(-1), jnp.array(-1.0)])
def test_bounds_that_nothing_can_keep_are_one_line(transform, bound):
    with pytest.raises(ValueError, match=rf"(max_norm|max_delta) is {bound}: expected a number above 0"):
        transform(bound)


@pytest.mark.parametrize("share", [-0.1, 1.5, np.float32(2)])
@pytest.mark.parametrize("transform", [partial(clip_by_norm_or_shrink, 1.0), partial(clip_parts_or_shrink, 1.0), shrink_after])
def test_shares_are_from_0_to_1(transform, share):
    with pytest.raises(ValueError, match=rf"(shrink|share) is {share}: expected a number from 0 to 1"):
        transform(share)


@pytest.mark.parametrize("transform", [clip_by_norm_or_shrink, clip_or_shrink, clip_parts_or_shrink])
def test_gradients_keep_their_type_with_a_bound_of_another(transform):
    params = {"w": jnp.ones(3, jnp.bfloat16)}
    injected = optax.inject_hyperparams(transform, hyperparam_dtype=jnp.float32)(1.0, 0.1)
    found, _ = jax.jit(injected.update)(params, injected.init(params), params)
    assert found["w"].dtype == jnp.bfloat16


def test_accumulated_gradients_that_are_not_finite_are_left_out():
    """Without the function, `optax.MultiSteps` keeps them in its sum for ever, and each update shrinks."""
    params = {"w": jnp.ones(3)}
    rule = optax.MultiSteps(clip_by_norm_or_shrink(), 2, should_skip_update_fn=optax.skip_not_finite)
    state = rule.init(params)
    for value in (jnp.nan, 0.1, 0.3):
        updates, state = rule.update({"w": jnp.full(3, value)}, state, params)
    np.testing.assert_allclose(updates["w"], 0.2, rtol=1e-6)


@by_name
def test_bounds_may_be_parameters_of_the_state(transform):
    """`optax.inject_hyperparams` passes bounds as arrays, whose values are not known while an update is compiled."""
    params, gradient = draw(LOW_RANK, 0), draw(LOW_RANK, 1, 10.0)
    name = "max_delta" if transform in (clip_all_but_first_seven, clip_or_shrink) else "max_norm"
    injected, plain = optax.inject_hyperparams(transform)(**{name: 0.5}), transform(0.5)
    found, _ = jax.jit(injected.update)(gradient, injected.init(params), params)
    expected, _ = plain.update(gradient, plain.init(params), params)
    assert_tree(found, as_float64(expected))


@pytest.mark.parametrize("bound", [1e10, 1e38, float("inf")])
@pytest.mark.parametrize("clip", [clip_by_norm_or_shrink, clip_or_shrink, clip_parts_or_shrink])
def test_a_bound_above_every_norm_recovers_without_clipping(clip, bound):
    params = {"a": jnp.ones((3, 4)), "scheduler": jnp.ones(2)}
    gradient = jax.tree.map(lambda p: 0.1 * p, params)
    transform = clip(bound)
    updates, _ = transform.update(gradient, transform.init(params), params)
    chex.assert_trees_all_equal(updates, gradient)
    updates, _ = transform.update(gradient | {"a": gradient["a"].at[0, 0].set(jnp.nan)}, transform.init(params), params)
    chex.assert_trees_all_close(updates, jax.tree.map(lambda p: 0.1 * p, params))


@pytest.mark.parametrize("share", [0.1, np.float32(0.1), jnp.float32(0.1)])
def test_shrinking_keeps_the_type_of_the_update(share):
    params = {"w": jnp.ones(3, jnp.bfloat16)}
    updates, _ = shrink_after(share).update(params, optax.EmptyState(), params)
    assert updates["w"].dtype == jnp.bfloat16


@pytest.mark.parametrize("clip", [clip_by_norm_or_shrink, clip_or_shrink, clip_parts_or_shrink])
def test_a_clip_of_no_parameters_leaves_them_alone(clip):
    """As `optax.masked` and `optax.multi_transform` apply it to a group without members."""
    params = {"w": jnp.ones(3)}
    optimizer = optax.masked(clip(), {"w": False})
    updates, state = optimizer.update(params, optimizer.init(params), params)
    np.testing.assert_array_equal(updates["w"], params["w"])
    assert recoveries(state) == 0


def test_recoveries_of_several_clips_are_added_up():
    params = {"a": jnp.ones(3), "b": jnp.ones(2)}
    optimizer = optax.multi_transform({"norm": clip_by_norm_or_shrink(), "component": clip_or_shrink()}, {"a": "norm", "b": "component"})
    state = optimizer.init(params)
    for spoilt in ({"a"}, {"a", "b"}):
        gradients = {name: jnp.nan * p if name in spoilt else p for name, p in params.items()}
        _, state = optimizer.update(gradients, state, params)
    assert recoveries(state) == 3


@pytest.mark.parametrize("transform", [clip_all_but_first_seven, project_rows])
def test_boxed_parameters_are_known_by_the_names_of_their_boxes(transform):
    """`nnx.Param` and `flax.linen.Partitioned` hold their array in an attribute `value`."""
    params, gradients = draw(LOW_RANK, 0), draw(LOW_RANK, 1)
    boxed = [jax.tree.map(lambda leaf: nn.Partitioned(leaf, (None,) * leaf.ndim), tree) for tree in (gradients, params)]  # type: ignore[arg-type]
    params_of_nnx = [nnx.State(jax.tree.map(nnx.Param, tree)) for tree in (gradients, params)]
    optimizer = transform(0.1)
    expected, _ = optimizer.update(gradients, optimizer.init(params), params)
    for of_kind in (boxed, params_of_nnx):
        found, _ = optimizer.update(of_kind[0], optimizer.init(of_kind[1]), of_kind[1])
        jax.tree.map(np.testing.assert_array_equal, jax.tree.leaves(found), jax.tree.leaves(expected))


def of_attention(path):
    """The axes of the inputs of an `nn.MultiHeadDotProductAttention`."""
    if path[-1] != "kernel":
        return None
    return (0, 1) if path[-2] == "out" else 0


def test_rows_of_attention_lie_along_the_axes_that_a_function_of_the_path_returns():
    """An output has the weights (d,) of a head's component, or (heads, k) of the last map. The oracle is a loop over outputs."""
    params = nn.MultiHeadDotProductAttention(num_heads=2).init(jax.random.key(0), jnp.ones((1, 3, 8)))["params"]
    params = jax.tree.map(lambda leaf: leaf + 1.0, params)
    rule = project_rows(0.5, of_attention)
    change, _ = rule.update(jax.tree.map(jnp.zeros_like, params), rule.init(params), params)
    new = optax.apply_updates(params, change)
    for name in ("query", "key", "value", "out"):
        rows, found = (np.reshape(tree[name]["kernel"], (8, 8)).T for tree in (params, new))  # (outputs, inputs)
        for row, limited in zip(rows, found, strict=True):
            np.testing.assert_allclose(limited, row * min(1.0, 0.5 / np.linalg.norm(row)), rtol=1e-5)
        np.testing.assert_array_equal(new[name]["bias"], params[name]["bias"])


def test_kernels_of_more_than_two_axes_are_refused_unless_their_axes_are_named():
    params = nn.MultiHeadDotProductAttention(num_heads=2).init(jax.random.key(0), jnp.ones((1, 3, 8)))
    says = r"params/key/kernel has shape \(8, 2, 4\), and a kernel of more than two axes .*: give axes, such as a function of the path"
    for rule in (project_rows(), RECIPES["weight_norm"].build(1e-3)):
        with pytest.raises(ValueError, match=says) as error:
            rule.init(params)
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=says):
        project_rows().update(params, optax.EmptyState(), params)
    with pytest.raises(ValueError, match="project_rows finds no matrix among bias, kernel"):
        project_rows(1.0, lambda path: None).init(params)


@pytest.mark.parametrize("axes", [{"w": 2}, {"w": -3}, lambda path: "x", lambda path: (0, 5)])
def test_axes_that_a_parameter_does_not_have_are_refused_at_the_start(axes):
    with pytest.raises(ValueError, match=r"project_rows: the axes of w are .*, and its shape is \(3, 4\): give one of its axes"):
        project_rows(1.0, axes).init({"w": jnp.ones((3, 4))})


def test_axes_by_a_function_with_a_bound_in_the_state():
    """`optax.inject_hyperparams` would take the function for a schedule."""
    params = {"w": jnp.full((2, 3), 4.0)}
    optimizer = optax.inject_hyperparams(project_rows, static_args="axes")(2.0, lambda path: 0)
    change, _ = jax.jit(optimizer.update)(jax.tree.map(jnp.zeros_like, params), optimizer.init(params), params)
    np.testing.assert_allclose(optax.apply_updates(params, change)["w"], jnp.full((2, 3), 2**0.5), rtol=1e-6)
