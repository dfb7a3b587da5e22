"""The Highway classifier against appendix A.1 in float64, its dropout, its batch normalization over devices, its loss and its size."""

from dataclasses import replace
from functools import cache, partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import circulant
from table import IN_EVERY_CELL, assert_close, assert_equal, check_slope

from lrpt.errors import UsageError
from lrpt.losses import squared_hinge
from lrpt.matrices import low_rank_plus_diagonal
from lrpt.networks.counting import count
from lrpt.networks.highway_classifier import HighwayClassifier, HighwayConfig, HighwayLayer, readout_penalty

INPUTS, SIZE, RANK, DEPTH, BATCH, CLASSES = 6, 5, 2, 2, 8, 3
NO_DROPOUT = dict.fromkeys(("input_dropout", "state_dropout", "projection_dropout", "output_dropout"), 0.0)
TINY = HighwayConfig(DEPTH, SIZE, parametrization="low_rank_plus_diagonal", rank=RANK)

CONFIGS = {
    **{kind: replace(TINY, parametrization=kind) for kind in (*IN_EVERY_CELL, "circulant")},
    "tied": replace(TINY, tied=True, activation="tanh"),
    "weight_norm": replace(TINY, parametrization="low_rank", weight_norm=True),
    "no_batch_norm": replace(TINY, batch_norm=False),
}
every_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())


key = partial(jax.random.key, impl="unsafe_rbg")  # compiles fast


@cache
def inputs():
    return jnp.asarray(np.random.default_rng(3).standard_normal((BATCH, INPUTS)), jnp.float32)


@cache
def variables(config):
    """Parameters and running averages of which none is what it starts from."""
    model = HighwayClassifier(config, CLASSES)
    shapes = jax.eval_shape(partial(model.init, train=False), key(0), inputs())
    rng = np.random.default_rng(4)

    def draw(path, shape):
        normal = rng.standard_normal(shape.shape)
        return (0.1 + normal**2 if path[-1].key == "var" else 0.7 * normal).astype(np.float32)

    return jax.tree_util.tree_map_with_path(draw, shapes)


@partial(jax.jit, static_argnames=("config", "train"))
def run(config, variables, inputs, seed=0, train=False):
    """(scores, running averages, what the dropout modules returned)."""
    model = HighwayClassifier(config, CLASSES)
    options = {"mutable": ["batch_stats", "intermediates"], "capture_intermediates": lambda module, _: isinstance(module, nn.Dropout)}
    scores, changed = model.apply(variables, inputs, train=train, rngs={"dropout": key(seed)}, **options)
    return scores, changed.get("batch_stats", {}), changed["intermediates"]


class Oracle:
    """Appendix A.1 once more, with rows as examples. Where dropout is on, the masks are given."""

    def __init__(self, config, variables, train, dropped=None):
        as_float64 = partial(jax.tree.map, lambda a: np.asarray(a, np.float64))
        self.config, self.train = config, train
        self.params, self.stats = as_float64(variables["params"]), as_float64(variables.get("batch_stats", {}))
        self.dropped = None if dropped is None else as_float64(dropped)
        self.g = {"relu": lambda a: np.maximum(a, 0), "tanh": np.tanh}[config.activation]

    def normalize(self, x, *path):
        if not self.config.batch_norm:
            return x
        stats = self.stats
        for name in path:
            stats = stats[name]
        mean, var = (x.mean(0), x.var(0)) if self.train else (stats["mean"], stats["var"])
        if self.train:
            stats.update(mean=0.9 * stats["mean"] + 0.1 * mean, var=0.9 * stats["var"] + 0.1 * var)
        return (x - mean) / np.sqrt(var + 1e-5)

    def factors(self, layer, gate):
        gates = self.params[layer]["gates"]
        factors = gates["recurrent"].get("shared", {}) | gates["recurrent"][gate]
        if not self.config.matrices.weight_norm:
            return factors
        left, right = factors["left"], factors["right"]
        scale = gates["recurrent_scale"][gate]["left"]
        return {"left": left / np.linalg.norm(left, axis=0) * scale, "right": right / np.linalg.norm(right, axis=1, keepdims=True)}

    def masks(self, layer, gate):
        if self.dropped is None:
            return 1.0, 1.0
        first = 0 if self.config.dropout.shared_masks or gate == "candidate" else 2
        return [self.dropped[layer][f"Dropout_{first + i}"]["__call__"][0] for i in range(2)]

    def gate(self, layer, gate, x):
        factors, (m_0, m_1) = self.factors(layer, gate), self.masks(layer, gate)
        x = x * m_0
        if "kernel" in factors:
            q = x @ factors["kernel"]
        elif "first_row" in factors:
            q = x @ circulant(factors["first_row"]).T
        else:
            p = self.normalize(x @ factors["right"].T, layer, gate, "projection_norm")
            q = (p * m_1) @ factors["left"] + x * factors.get("diagonal", 0.0)
        q = self.normalize(q, layer, gate, "norm")
        scale = self.params[layer][gate]["norm"]["scale"] if self.config.batch_norm else 1.0
        return q * scale + self.params[layer]["gates"]["bias"][gate]

    def scores(self, x):
        x = np.asarray(x, np.float64) if self.dropped is None else self.dropped["input_dropout"]["__call__"][0]
        x = self.normalize(x @ self.params["input"]["kernel"], "input_norm")
        if self.config.batch_norm:
            x = x * self.params["input_norm"]["scale"] + self.params["input_norm"]["bias"]
        else:
            x = x + self.params["input"]["bias"]
        x = self.g(x)
        for i in range(self.config.depth):
            h = self.g(self.gate(f"layer_{i}", "candidate", x))
            t = 1 / (1 + np.exp(-self.gate(f"layer_{i}", "transform", x)))
            x = t * h + (1 - t) * x
        if self.dropped is not None:
            mask = np.asarray(self.dropped["output_dropout"]["__call__"][0] != 0)
            x = x * mask / (1 - self.config.dropout.outputs)
        return x @ self.params["readout"]["kernel"] + self.params["readout"]["bias"]


@every_config
def test_evaluation_equals_the_equations_in_float64(config):
    scores, stats, _ = run(config, variables(config), inputs())
    assert_close(scores, Oracle(config, variables(config), train=False).scores(inputs()), rtol=2e-5, atol=2e-5)
    assert_equal(stats, variables(config).get("batch_stats", {}))


@every_config
def test_training_without_dropout_equals_the_equations_in_float64(config):
    config = replace(config, **NO_DROPOUT)
    scores, stats, _ = run(config, variables(config), inputs(), train=True)
    oracle = Oracle(config, variables(config), train=True)
    assert_close(scores, oracle.scores(inputs()), rtol=1e-4, atol=1e-4)
    assert_close(stats, oracle.stats, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [TINY, replace(TINY, share_masks=True), replace(TINY, batch_norm=False), CONFIGS["dense"]],
    ids=["own_masks", "shared_masks", "no_batch_norm", "dense"],
)
def test_training_equals_the_equations_with_the_masks_that_were_drawn(config):
    scores, stats, dropped = run(config, variables(config), inputs(), train=True)
    oracle = Oracle(config, variables(config), train=True, dropped=dropped)
    assert_close(scores, oracle.scores(inputs()), rtol=1e-4, atol=1e-4)
    assert_close(stats, oracle.stats, rtol=1e-4, atol=1e-4)


def masks_of(dropped):
    return {
        f"{i}.{name}": np.asarray(m["__call__"][0]) for i in range(DEPTH) for name, m in dropped[f"layer_{i}"].items() if "Dropout" in name
    }


@pytest.mark.parametrize(("share_masks", "pairs"), [(False, 2), (True, 1)])
def test_masks(share_masks, pairs):
    """One pair for each gate or one for both, others in each layer, and others for other random numbers."""
    config = replace(TINY, rank=SIZE, state_dropout=0.3, projection_dropout=0.6, share_masks=share_masks)
    masks = masks_of(run(config, variables(config), inputs(), seed=0, train=True)[2])
    assert len(masks) == 2 * pairs * DEPTH
    for name, mask in masks.items():
        kept = 1 - (0.3, 0.6)[int(name[-1]) % 2]
        np.testing.assert_allclose(np.unique(mask), [0, 1 / kept], rtol=1e-6)
    others = masks_of(run(config, variables(config), inputs(), seed=1, train=True)[2])
    assert len({(mask != 0).tobytes() for mask in (*masks.values(), *others.values())}) == 4 * pairs * DEPTH


def test_share_of_what_is_dropped():
    config = replace(TINY, size=400, rank=400, depth=1, parametrization="low_rank")
    layer, x = HighwayLayer(config), jnp.ones((50, 400))
    _, dropped = jax.jit(
        lambda: layer.init_with_output(
            {"params": key(0), "dropout": key(1)}, x, train=True, capture_intermediates=lambda m, _: isinstance(m, nn.Dropout)
        )
    )()
    for mask in jax.tree.leaves(dropped["intermediates"]):
        assert abs(np.mean(mask == 0) - 0.3) < 0.015


def test_evaluation_needs_no_random_numbers_and_drops_nothing():
    model = HighwayClassifier(TINY, CLASSES)
    scores = model.apply(variables(TINY), inputs(), train=False)
    assert_close(scores, run(TINY, variables(TINY), inputs(), seed=5)[0])


@pytest.mark.slow
def test_the_state_passes_whole_through_a_layer_that_drops():
    config = replace(TINY, state_dropout=0.9, transform_bias=-1000.0, batch_norm=False)
    x = jnp.asarray(np.random.default_rng(0).standard_normal((BATCH, SIZE)), jnp.float32)
    y, _ = HighwayLayer(config).init_with_output({"params": key(0), "dropout": key(1)}, x, train=True)
    assert_equal(y, x)


def test_dense_equivalent_without_batch_normalization():
    config = replace(TINY, batch_norm=False)
    dense = replace(config, parametrization="dense")
    stored = variables(config)
    params = dict(stored["params"])
    for i in range(DEPTH):
        gates = dict(params[f"layer_{i}"]["gates"])
        gates["recurrent"] = {name: {"kernel": low_rank_plus_diagonal(**f).to_dense()} for name, f in gates["recurrent"].items()}
        params[f"layer_{i}"] = {"gates": gates}
    assert_close(run(config, stored, inputs())[0], run(dense, {"params": params}, inputs())[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["low_rank_plus_diagonal", "tied", "no_batch_norm"])
def test_gradients_equal_finite_differences(name):
    """Of the mean squared hinge loss and the penalty, with batch normalization by the batch, to parameters and inputs."""
    config = replace(CONFIGS[name], **NO_DROPOUT)
    model, stored = HighwayClassifier(config, CLASSES), variables(config)
    rng = np.random.default_rng(6)
    targets = jnp.asarray(rng.integers(0, CLASSES, BATCH))
    with jax.enable_x64(True):
        at = jax.tree.map(lambda a: np.asarray(a, np.float64), (stored["params"], inputs()))
        along = jax.tree.map(lambda a: rng.standard_normal(a.shape), at)
        rest = {k: v for k, v in stored.items() if k != "params"}

        @jax.jit
        @jax.value_and_grad
        def loss_and_gradient(at):
            params, x = at
            scores, _ = model.apply({"params": params, **rest}, x, train=True, mutable=["batch_stats"])
            return squared_hinge(scores, targets).mean() + readout_penalty(params["readout"]["kernel"], 0.1)

        def loss(step):
            return loss_and_gradient(jax.tree.map(lambda a, d: a + step * d, at, along))[0]

        check_slope(loss, loss_and_gradient(at)[1], along, eps=1e-5, rtol=1e-6)  # short of the next kink of the rectifier


def test_a_batch_that_is_spread_over_devices_is_normalized_as_one():
    config = replace(TINY, **NO_DROPOUT)
    model = HighwayClassifier(config, CLASSES, axis_name="devices")

    @partial(jax.vmap, in_axes=(None, 0), axis_name="devices")
    def apply(variables, x):
        return model.apply(variables, x, train=True, mutable=["batch_stats"])

    scores, changed = jax.jit(apply)(variables(config), inputs().reshape(4, BATCH // 4, INPUTS))
    whole, stats, _ = run(config, variables(config), inputs(), train=True)
    assert_close(scores.reshape(BATCH, CLASSES), whole, rtol=1e-4, atol=1e-5)
    on_each = jax.tree.map(lambda a: jnp.stack([a] * 4), stats)
    assert_close(changed["batch_stats"], on_each, rtol=1e-4, atol=1e-5)


def test_where_training_starts():
    stored = jax.jit(partial(HighwayClassifier(TINY, CLASSES).init, train=False))(key(0), inputs())
    layer = stored["params"]["layer_1"]
    assert_equal(layer["gates"]["bias"], {"candidate": jnp.zeros(SIZE), "transform": jnp.full(SIZE, -1.0)})
    assert_equal(layer["candidate"], {"norm": {"scale": jnp.ones(SIZE)}})
    assert_equal(stored["batch_stats"]["layer_1"]["transform"]["projection_norm"], {"mean": jnp.zeros(RANK), "var": jnp.ones(RANK)})
    assert set(stored["params"]["input"]) == {"kernel"}
    bound = np.sqrt(6 / (INPUTS + SIZE))
    assert 0.8 * bound < np.abs(stored["params"]["input"]["kernel"]).max() <= bound


def test_count():
    """784 x 1024 and batch norm; matrices, scale and bias for each of two gates of five layers; 1024 x 10 and bias."""
    ends = 784 * 1024 + 2 * 1024 + 1024 * 10 + 10
    low_rank = 2 * 1024 * 256
    assert count(HighwayConfig(), 784, 10).true == ends + 5 * 2 * (low_rank + 2 * 1024)
    assert count(HighwayConfig(parametrization="low_rank_plus_diagonal"), 784, 10).true == ends + 5 * 2 * (low_rank + 3 * 1024)
    assert count(HighwayConfig(parametrization="dense"), 784, 10).true == ends + 5 * 2 * (1024**2 + 2 * 1024)
    assert count(HighwayConfig(tied=True), 784, 10).true == ends + 5 * (low_rank + 1024 * 256 + 4 * 1024)
    assert count(HighwayConfig(batch_norm=False), 784, 10).true == ends - 1024 + 5 * 2 * (low_rank + 1024)


def test_labels():
    assert HighwayConfig().label == "LR-Highway 5x1024/256"
    assert HighwayConfig(parametrization="dense", depth=2, weight_norm=True).label == "Highway 2x1024 weight norm"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"depth": 0}, r"model\.depth is 0: expected 1 or more"),
        ({"size": -1}, r"model\.size is -1: expected 1 or more"),
        ({"input_rank": 0}, r"model\.inputs\.rank is 0: expected 1 or more"),
        ({"activation": "swish"}, r"model\.activation is 'swish': choose from relu, tanh"),
        ({"matrices": "dense"}, r"model\.matrices is 'dense': give a TiedStorageConfig, or its settings by their names"),
        ({"input_dropout": 1.0}, r"model\.dropout\.inputs is 1\.0: expected a share from 0 to below 1"),
        ({"output_dropout": float("nan")}, r"model\.dropout\.outputs is nan"),
        ({"transform_bias": float("inf")}, r"model\.transform_bias is inf: expected a finite number"),
        ({"readout_penalty": float("inf")}, r"model\.readout_penalty is inf: expected a finite number, 0 or more"),
    ],
)
def test_bad_configurations(changes, message):
    with pytest.raises(UsageError, match=message):
        HighwayConfig(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"rank": 1025}, "rank 1025 does not fit"), ({"parametrization": "hankel"}, r"model\.matrices\.kind is 'hankel': choose from")],
)
def test_configurations_that_do_not_fit_together(changes, message):
    with pytest.raises(UsageError, match=message):
        count(HighwayConfig(**changes), 784, 10)


def test_squared_hinge_is_that_of_each_class_against_the_rest():
    rng = np.random.default_rng(0)
    scores, targets = rng.normal(0, 2, (4, 6, 5)), rng.integers(0, 5, (4, 6))
    expected = np.zeros((4, 6))
    for at in np.ndindex(4, 6):
        for k in range(5):
            y = 1 if targets[at] == k else -1
            expected[at] += max(0, 1 - scores[at][k] * y) ** 2
    actual = partial(squared_hinge, jnp.asarray(scores, jnp.float32), jnp.asarray(targets))
    np.testing.assert_allclose(actual(), expected, rtol=1e-5)
    np.testing.assert_allclose(actual(over="mean"), expected / 5, rtol=1e-5)


def test_squared_hinge_of_sure_scores():
    np.testing.assert_array_equal(squared_hinge(jnp.array([[1.0, -1.0], [-1.0, 1.0]]), jnp.array([0, 0])), [0.0, 8.0])


def test_penalty_of_the_readout():
    kernel = np.random.default_rng(0).standard_normal((7, 3))
    square = sum(w**2 for w in kernel.ravel())
    actual = partial(readout_penalty, jnp.asarray(kernel, jnp.float32), 1e-3)
    np.testing.assert_allclose(actual(), 1e-3 * square, rtol=1e-5)
    np.testing.assert_allclose(actual(form="original"), 1e-3 * np.sqrt(square) / 21, rtol=1e-5)


def test_the_penalty_is_for_training():
    options = {"rngs": {"dropout": key(0)}, "mutable": ["batch_stats", "penalties"]}
    applied = [partial(HighwayClassifier(TINY, CLASSES).apply, train=train, **options) for train in (False, True)]
    assert ["penalties" in jax.eval_shape(apply, variables(TINY), inputs())[1] for apply in applied] == [False, True]


def test_names_of_losses_are_checked():
    with pytest.raises(UsageError, match="over is 'max': choose from sum, mean"):
        squared_hinge(jnp.zeros((1, 2)), jnp.zeros(1, int), over="max")
    with pytest.raises(UsageError, match="form is 'l1': choose from squared, original"):
        readout_penalty(jnp.zeros((2, 2)), 1.0, form="l1")
