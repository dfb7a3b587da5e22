"""Tests of every named recipe: it lowers a loss, compiles once, and rejects invalid settings."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lrpt.errors import UsageError
from lrpt.optim import RECIPES, OptimConfig, Recipe, recoveries
from lrpt.runs.named_arrays import to_named

# Named like a network's parameters, because some transformations select tensors by name.
PARAMS = jax.tree.map(
    lambda shape: jnp.linspace(-0.5, 0.7, np.prod(shape)).reshape(shape),
    {
        "cell": {
            "input": {"candidate": {"kernel": (2, 3)}},
            "recurrent": {"candidate": {"left": (2, 3), "right": (2, 3), "diagonal": (3,)}},
            "bias": {"candidate": (3,)},
        },
        "readout": {"kernel": (3, 2), "bias": (2,)},
    },
    is_leaf=lambda node: isinstance(node, tuple),
)


def quadratic(params) -> jax.Array:
    return sum(jnp.sum(jnp.square(leaf - 0.1)) for leaf in jax.tree.leaves(params))


RATES = dict.fromkeys(RECIPES, 3e-3) | {"rhn": 3e-2}


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipe_lowers_a_quadratic_and_compiles_once(recipe):
    optimizer = OptimConfig(recipe, learning_rate=RATES[recipe]).build()
    traces = []

    @jax.jit
    def step(params, state):
        traces.append(None)
        change, state = optimizer.update(jax.grad(quadratic)(params), state, params)
        return optax.apply_updates(params, change), state

    params, state = PARAMS, optimizer.init(PARAMS)
    for _ in range(300):
        params, state = step(params, state)
    assert quadratic(params) < 0.01 * quadratic(PARAMS)
    assert len(traces) == 1
    assert (recoveries(state) is not None) == (recipe in SHARES)


# First update of each script of lowrank-gru in float64, given its clipping, the epsilon in the root, and its learning rate.
def one_update(recipe: str, params: dict[str, np.ndarray], gradient: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    norm = np.sqrt(sum((g**2).sum() for g in gradient.values()))
    by_norm = {name: g / max(norm, 1.0) for name, g in gradient.items()}
    to_ten = {name: g * min(1.0, 10.0 / norm) for name, g in gradient.items()}
    by_component = {name: np.clip(g, -1.0, 1.0) for name, g in gradient.items()}
    kept = {
        name: g if "input" in name or "right" in name or name.endswith("candidate/left") else by_component[name]
        for name, g in gradient.items()
    }
    clipped, eps, rate = {
        "copy_memory": (by_norm, 1e-8, 1e-3),
        "copy_memory_dense": (by_component, 1e-8, 1e-3),
        "copy_memory_unitary": (gradient, 1e-8, 1e-3),
        "adding": (by_component, 0.0, 1e-3),
        "adding_recovery": (by_component, 0.0, 1e-3),
        "permuted_mnist": (by_component, 0.0, 5e-4),
        "permuted_mnist_original": (kept, 0.0, 5e-4),
        "weight_norm": (by_norm, 1e-8, 1e-3),
        "weight_norm_recovery": (by_norm, 1e-8, 1e-3),
        "char_lm": (by_norm, None, 1e-3),
        "char_lm_apart": (by_norm, None, 1e-3),
        "char_lm_original": (by_norm, None, 1e-3),
        "char_lstm": ({name: g + 1e-7 * params[name] for name, g in gradient.items()}, None, 2e-4),
        "rhn": (to_ten, "sgd", 0.2),
        "momentum": (to_ten, "sgd", 1e-2),
        "adam": (gradient, None, 1e-3),
    }[recipe]
    if eps == "sgd":
        return {name: p - rate * clipped[name] for name, p in params.items()}
    if eps is None:
        return {name: p - rate * np.sign(clipped[name]) for name, p in params.items()}
    return {name: p - rate * clipped[name] / np.sqrt(0.9e-3 + 0.1 * clipped[name] ** 2 + eps) for name, p in params.items()}


@pytest.mark.parametrize("recipe", RECIPES)
def test_first_update_at_the_recipes_own_rate(recipe):
    optimizer = OptimConfig(recipe).build()
    rng = np.random.default_rng(0)
    gradient = jax.tree.map(lambda p: jnp.asarray(3 * rng.standard_normal(p.shape), jnp.float32), PARAMS)
    change, _ = optimizer.update(gradient, optimizer.init(PARAMS), PARAMS)
    expected = one_update(recipe, to_named(PARAMS), {name: g.astype(np.float64) for name, g in to_named(gradient).items()})
    for name, new in to_named(optax.apply_updates(PARAMS, change)).items():
        np.testing.assert_allclose(new, expected[name], rtol=1e-6, atol=1e-8, err_msg=name)


def test_momentum_is_nine_tenths_of_the_sum_before():
    optimizer, params = OptimConfig("momentum", learning_rate=0.5).build(), {"w": jnp.zeros(3)}
    g = np.array([[1.0, -2.0, 0.5], [0.25, 1.0, 0.0], [-1.0, 0.0, 2.0]])
    state, found = optimizer.init(params), []
    for row in g:
        change, state = optimizer.update({"w": jnp.asarray(row, jnp.float32)}, state, params)
        found.append(change["w"])
    np.testing.assert_allclose(found, -0.5 * np.stack([g[0], 0.9 * g[0] + g[1], 0.81 * g[0] + 0.9 * g[1] + g[2]]), rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_adding_recovers_from_gradients_that_are_not_finite(bad):
    """Finite gradients, however large, give the updates of 'adding'; any other one is replaced by 0.1 times the parameters and counted."""
    plain, recovering = (OptimConfig(recipe).build() for recipe in ("adding", "adding_recovery"))
    state, other = plain.init(PARAMS), recovering.init(PARAMS)
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1.0, 1e30):  # the norm of the last one overflows
        gradient = jax.tree.map(lambda p, by=scale: jnp.asarray(by * rng.standard_normal(p.shape), jnp.float32), PARAMS)
        expected, state = plain.update(gradient, state, PARAMS)
        found, other = recovering.update(gradient, other, PARAMS)
        jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert recoveries(other) == 0
    large = jax.tree.map(lambda p: 100 * p, PARAMS)  # so that the shrink term is beyond the limit of components
    broken = {**gradient, "readout": {**gradient["readout"], "bias": jnp.array([1.0, bad])}}
    found, after = recovering.update(broken, other, large)
    assert recoveries(after) == 1
    decayed = to_named(jax.tree.map(lambda p: 0.1 * p, large))
    v = to_named(optax.tree.get(other, "nu"))
    for name, change in to_named(found).items():
        g = decayed[name].astype(np.float64)
        np.testing.assert_allclose(change, -1e-3 * g / np.sqrt(0.9 * v[name] + 0.1 * g**2 + 1e-30), rtol=1e-5, err_msg=name)


# In lowrank-gru (RNN_memory.py) and in dl4mt-lm (small_lm.py).
SHARES = {
    **dict.fromkeys(("copy_memory", "weight_norm_recovery", "adding_recovery"), 0.1),
    **dict.fromkeys(("char_lm", "char_lm_apart", "char_lm_original"), 0.01),
}


@pytest.mark.parametrize("recipe", SHARES)
def test_a_recovery_replaces_the_gradient_by_the_share_of_its_source(recipe):
    """Accumulators of squares show the gradient, which is `share` times the parameters."""
    optimizer = OptimConfig(recipe).build()
    broken = jax.tree.map(lambda p: jnp.full_like(p, jnp.nan), PARAMS)
    _, after = optimizer.update(broken, optimizer.init(PARAMS), PARAMS)
    start, new = (0.0, 1e-3) if recipe.startswith("char_lm") else (0.9e-3, 0.1)  # Adam, RMSProp
    expected = {name: start + new * (SHARES[recipe] * p.astype(np.float64)) ** 2 for name, p in to_named(PARAMS).items()}
    for name, v in to_named(optax.tree.get(after, "nu")).items():
        np.testing.assert_allclose(v, expected[name], rtol=1e-5, err_msg=name)


def test_the_weight_decay_of_char_lstm_is_the_gradient_where_there_is_no_other():
    """Adam's first update is -lr g / (|g| + 1e-8), with g = 1e-7 times the parameter."""
    optimizer, params = OptimConfig("char_lstm").build(), {"w": jnp.array([1.0, -0.5, 0.01])}
    change, _ = optimizer.update({"w": jnp.zeros(3)}, optimizer.init(params), params)
    g = 1e-7 * np.array([1.0, -0.5, 0.01])
    np.testing.assert_allclose(change["w"], -2e-4 * g / (np.abs(g) + 1e-8), rtol=1e-4)


@pytest.mark.parametrize("recipe", ["adam", "char_lm", "char_lstm"])
def test_adam_has_its_published_constants(recipe):
    """Kingma and Ba 2015, algorithm 1, in float64. The paper on lattices prints 1 - beta1 and 1 - beta2 instead."""
    rng = np.random.default_rng(0)
    optimizer, rate, params = OptimConfig(recipe).build(), RECIPES[recipe].learning_rate, {"w": jnp.zeros(4)}
    state, theta, m, v = optimizer.init(params), np.zeros(4), np.zeros(4), np.zeros(4)
    for t in range(1, 6):
        g = 0.1 * rng.standard_normal(4)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        theta -= rate * m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        change, state = optimizer.update({"w": jnp.asarray(g, jnp.float32)}, state, params)
        params = optax.apply_updates(params, change)
    np.testing.assert_allclose(params["w"], theta, rtol=1e-4)


def test_where_adams_constant_stands_matters_for_small_gradients():
    """dl4mt-lm, small_lm.py, `adam`: lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + 1e-8), in float64."""
    rng = np.random.default_rng(0)
    theta, m, v = np.ones(4), np.zeros(4), np.zeros(4)
    optimizer = OptimConfig("char_lm_original").build()
    params = {"w": jnp.ones(4)}
    state = optimizer.init(params)
    for t in range(1, 6):
        g = rng.standard_normal(4) * 10.0 ** np.array([-9, -8, -7, -2])
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        theta -= 1e-3 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-8)
        change, state = optimizer.update({"w": jnp.asarray(g, jnp.float32)}, state, params)
        params = optax.apply_updates(params, change)
    np.testing.assert_allclose(params["w"] - 1, theta - 1, rtol=1e-3, atol=2e-7)


# rhn_train.py and the Torch code of Zilly et al. 2017: the loss is summed over the T steps of a window.
@pytest.mark.parametrize("form", ["in_loss", "decoupled"])
@pytest.mark.parametrize("scale", [0.01, 100.0])
def test_summed_loss_and_both_kinds_of_weight_decay(form, scale):
    T, w, rate = 5, 0.3, 0.2
    optimizer = OptimConfig("rhn", summed_steps=T, weight_decay=w, weight_decay_form=form).build()
    rng = np.random.default_rng(0)
    gradient = jax.tree.map(lambda p: jnp.asarray(scale * rng.standard_normal(p.shape), jnp.float32), PARAMS)
    change, _ = optimizer.update(gradient, optimizer.init(PARAMS), PARAMS)
    theta, mean = ({name: a.astype(np.float64) for name, a in to_named(tree).items()} for tree in (PARAMS, gradient))
    seen = {name: T * g + (form == "in_loss") * w * theta[name] for name, g in mean.items()}
    norm = np.sqrt(sum((g**2).sum() for g in seen.values()))
    for name, new in to_named(optax.apply_updates(PARAMS, change)).items():
        expected = theta[name] - rate * seen[name] * min(1.0, 10 / norm)
        np.testing.assert_allclose(new, expected * (1 - w * (form == "decoupled")), rtol=2e-6, atol=1e-7, err_msg=name)


def test_without_them_a_recipe_is_built_as_it_is():
    plain, wrapped = OptimConfig("adam"), OptimConfig("adam", weight_decay=1e-7)
    states = [jax.tree.structure(config.build().init(PARAMS)) for config in (plain, wrapped)]
    assert states[0] == jax.tree.structure(RECIPES["adam"].build(1e-3).init(PARAMS)) != states[1]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("summed_steps", 0),
        ("summed_steps", 10**30),
        ("halve_after", 2**31),
        ("decay_after", 10**30),
        ("weight_decay", -1e-7),
        ("weight_decay", 1.0),
        ("weight_decay", float("nan")),
        ("weight_decay_form", "l2"),
    ],
)
def test_settings_that_make_no_sense_are_refused(field, value):
    with pytest.raises(UsageError, match=rf"optim\.{field} is "):
        OptimConfig("rhn", **{field: value})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decay": 0.0}, "optim.decay is 0.0: expected a factor above 0, at most 1"),
        ({"decay": 1.5}, "optim.decay is 1.5: expected a factor above 0, at most 1"),
        ({"halve_after": 0}, "optim.halve_after is 0: expected 1 or more"),
        ({"decay_after": -1}, "optim.decay_after is -1: expected 0 or more"),
        ({"halvings": -1}, "optim.halvings is -1: expected 0 or more"),
    ],
)
def test_bad_schedules(changes, message):
    with pytest.raises(UsageError, match=message):
        OptimConfig("adam", **changes)


def test_a_schedule_by_epochs():
    optim = OptimConfig("adam", 0.1, decay=0.5, decay_after=2)
    rates = [float(jax.jit(lambda u: optim.decayed(0.1, u, 10))(np.int32(update))) for update in (0, 29, 30, 40)]
    np.testing.assert_allclose(rates, [0.1, 0.1, 0.05, 0.025], rtol=1e-6)


@pytest.mark.parametrize("recipe", ["weight_norm", "weight_norm_recovery"])
def test_weight_norm_recipe_keeps_rows_within_ten(recipe):
    optimizer = OptimConfig(recipe).build()
    params = jax.tree.map(lambda p: 100 * p, PARAMS)
    change, _ = optimizer.update(jax.tree.map(jnp.zeros_like, params), optimizer.init(params), params)
    new = optax.apply_updates(params, change)
    np.testing.assert_allclose(jnp.linalg.norm(new["readout"]["kernel"], axis=0), 10.0, rtol=1e-6)
    np.testing.assert_allclose(jnp.linalg.norm(new["cell"]["recurrent"]["candidate"]["right"], axis=1), 10.0, rtol=1e-6)
    np.testing.assert_array_equal(new["cell"]["bias"]["candidate"], params["cell"]["bias"]["candidate"])


def test_only_the_recovering_recipe_survives_nan():
    gradient = jax.tree.map(lambda p: p * jnp.nan, PARAMS)
    for name in RECIPES:
        optimizer = OptimConfig(name).build()
        change, _ = optimizer.update(gradient, optimizer.init(PARAMS), PARAMS)
        assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(change)) == (name in SHARES)


@pytest.mark.parametrize("rate", [0.0, -1e-3, float("nan"), float("inf")])
def test_learning_rate_must_be_positive_and_finite(rate):
    with pytest.raises(UsageError, match=r"optim\.learning_rate is .*: choose a finite number above 0"):
        OptimConfig("adam", learning_rate=rate)


@pytest.mark.parametrize(
    ("rate", "says"),
    [
        ("0.1", r"'0\.1': choose a finite number above 0, or leave it out$"),
        ([0.1], r"\[0\.1\]: choose a finite number above 0, or leave it out$"),
        (optax.cosine_decay_schedule(0.1, 10), r"<.*: choose a .*; a schedule belongs into a recipe of your own, see docs/problems\.md$"),
    ],
)
def test_a_learning_rate_is_a_number(rate, says):
    config = OptimConfig("adam")
    object.__setattr__(config, "learning_rate", rate)  # these tests check types in the constructor, and the library does not
    with pytest.raises(UsageError, match=r"optim\.learning_rate is " + says):
        config.__post_init__()


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_takes_a_schedule(recipe):
    """The first update is that of the schedule's first value; the second has a learning rate of 0."""
    build = RECIPES[recipe].build
    scheduled, constant = build(optax.piecewise_constant_schedule(1e-3, {1: 0.0})), build(1e-3)
    state, expected = scheduled.init(PARAMS), constant.update(PARAMS, constant.init(PARAMS), PARAMS)[0]
    first, state = scheduled.update(PARAMS, state, PARAMS)
    second, _ = scheduled.update(PARAMS, state, PARAMS)
    jax.tree.map(np.testing.assert_array_equal, first, expected)
    assert not any(leaf.any() for leaf in jax.tree.leaves(second))


def test_unknown_recipe_is_answered_with_the_choices():
    with pytest.raises(UsageError, match=r"optim\.recipe is 'adma': choose from adam, "):
        OptimConfig("adma")


def test_a_recipe_of_a_user_can_be_named(monkeypatch):
    monkeypatch.setitem(RECIPES, "lion", RECIPES["adam"])
    assert OptimConfig("lion").initial_learning_rate == RECIPES["adam"].learning_rate


def test_a_recipe_that_builds_no_chain_is_one_line(monkeypatch):
    monkeypatch.setitem(RECIPES, "rate", Recipe("a learning rate", 0.1, lambda rate: rate))
    with pytest.raises(UsageError, match=r"recipe 'rate' builds 0\.1: expected an optax chain"):
        OptimConfig("rate").build()


@pytest.mark.parametrize(
    ("settings", "factor"),
    [
        ({}, 1.0),
        ({"summed_steps": 3}, 3.0),
        ({"weight_decay": 0.1}, 1.1),
    ],
)
def test_what_is_evaluated_comes_from_the_state_of_the_recipe(monkeypatch, settings, factor):
    """The state holds the gradient that the recipe receives."""
    recipe = Recipe("momentum", 0.1, lambda rate: optax.trace(0.9), evaluated=lambda state, params: state.trace)
    monkeypatch.setitem(RECIPES, "trace", recipe)
    config = OptimConfig("trace", **settings)
    _, state = config.build().update(PARAMS, config.build().init(PARAMS), PARAMS)
    jax.tree.map(lambda found, p: np.testing.assert_allclose(found, factor * p, rtol=1e-6), config.evaluated(state, PARAMS), PARAMS)


@pytest.mark.parametrize("settings", [{"weight_decay": 0.1, "weight_decay_form": "decoupled"}, {"halve_after": 1, "return_to_best": True}])
def test_an_average_is_refused_beside_changes_that_it_would_not_follow(monkeypatch, settings):
    monkeypatch.setitem(RECIPES, "mean", Recipe("a mean", 0.1, optax.sgd, evaluated=lambda state, params: params))
    with pytest.raises(UsageError, match=r"optim\.(weight_decay_form decoupled|return_to_best) changes parameters after the recipe"):
        OptimConfig("mean", **settings)


@pytest.mark.parametrize("settings", [{"decay": 0.5}, {"halve_after": 3}])
def test_a_learning_rate_in_the_state_of_the_optimizer_cannot_change(monkeypatch, settings):
    monkeypatch.setitem(RECIPES, "injected", Recipe("SGD", 0.1, optax.inject_hyperparams(optax.sgd)))
    config = OptimConfig("injected", **settings)
    with pytest.raises(UsageError, match=r"optim\.\w+ would have no effect: recipe 'injected' keeps its learning rate in the state"):
        config.check_rate(config.build().init(PARAMS))
    OptimConfig("injected").check_rate(config.build().init(PARAMS))
    for name in RECIPES.keys() - {"injected"}:
        own = OptimConfig(name, **settings)
        own.check_rate(own.build().init(PARAMS))


COPYING = ("copy_memory", "copy_memory_dense", "copy_memory_unitary", "weight_norm", "weight_norm_recovery")
DIGITS_AND_ADDING = ("adding", "adding_recovery", "permuted_mnist", "permuted_mnist_original")
EPSILONS = {**dict.fromkeys(COPYING, 1e-8), **dict.fromkeys(DIGITS_AND_ADDING, 0.0)}


@pytest.mark.parametrize("recipe", EPSILONS)
def test_epsilon_stands_in_the_root_where_the_source_has_one(recipe):
    """After 300 updates, the accumulator's start is forgotten, and gradients of 1e-5 have squares below 1e-8."""
    params = {"recurrent": {"candidate": {"kernel": jnp.ones((3, 3))}}, "bias": {"candidate": jnp.ones(3)}}
    optimizer = OptimConfig(recipe, learning_rate=1e-3).build()
    state, update = optimizer.init(params), jax.jit(optimizer.update)
    gradient, v = jax.tree.map(lambda p: jnp.full_like(p, 1e-5), params), 1e-3
    for _ in range(300):
        change, state = update(gradient, state, params)
        v = 0.9 * v + 0.1 * 1e-10
    for leaf in jax.tree.leaves(change):
        np.testing.assert_allclose(leaf, -1e-3 * 1e-5 / np.sqrt(v + EPSILONS[recipe]), rtol=1e-4)


def test_a_chain_in_the_place_of_a_recipe_is_one_line(monkeypatch):
    config = OptimConfig("adam")
    object.__setattr__(config, "recipe", optax.adam(1e-3))  # these tests check types in the constructor, and the library does not
    with pytest.raises(UsageError, match=r"optim.recipe is an optax chain: give a name, after lrpt.optim.RECIPES\['mine'\] = "):
        config.__post_init__()
    monkeypatch.setitem(RECIPES, "mine", optax.adam(1e-3))
    with pytest.raises(UsageError, match=r"RECIPES\['mine'\] is a GradientTransformationExtraArgs: enter lrpt.optim.RECIPES\['mine'\] = "):
        OptimConfig("mine", 0.1).build()
