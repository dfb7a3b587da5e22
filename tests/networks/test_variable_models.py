"""Networks with a scheduler: the penalty and the figures against a float64 loop, two masks, other cells, bad input."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from table import assert_close, assert_equal

from lrpt.cells import CELLS, Cell, Schedule, VariableInfo, block_step, blocks, stacked
from lrpt.errors import UsageError
from lrpt.networks.protocol import SOWN, Start
from lrpt.networks.recurrent import cell_params, initial_carry
from lrpt.networks.sequence_model import ModelConfig, SequenceModel, recurrent_of
from lrpt.networks.variable_computation import (
    SUMS,
    VariableConfig,
    VariableModel,
    last_that_counts,
    mean_over_steps,
    schedule_penalty,
)
from lrpt.recurrence import LOOPS, recur
from lrpt.specs import MatrixSpec

SYMBOLS, SIZE, STEPS, BATCH = 4, 5, 6, 3
MASK = jnp.arange(STEPS)[None] < jnp.array([6, 4, 1])[:, None]
INPUTS = jnp.asarray(np.random.default_rng(0).integers(0, SYMBOLS, (BATCH, STEPS)))
CONFIG = VariableConfig(
    "vcrnn", SIZE, parametrization="dense", target=0.4, penalty_weight=0.7, guided_symbols=(1, 3), guided_target=0.9, recurrence="plain"
)


def variables_of(config, sharpness=0.8):
    """Drawn so that nothing is small or zero."""
    shapes = jax.eval_shape(config.build(SYMBOLS, SYMBOLS, "all").init, jax.random.key(0), INPUTS[:, :1])
    rng = np.random.default_rng(1)
    params = jax.tree.map(lambda a: (0.7 * rng.standard_normal(a.shape)).astype(np.float32), shapes["params"])
    return {"params": params, "settings": jax.tree.map(lambda _: jnp.float32(sharpness), shapes.get("settings", {}))}


VARIABLES = variables_of(CONFIG)


def test_initialization_returns_no_metrics():
    """They would stand before those of the first call."""
    assert CONFIG.build(SYMBOLS, SYMBOLS, "all").init(jax.random.key(0), INPUTS).keys() == {"params", "settings"}


@partial(jax.jit, static_argnames=("config", "train", "masked", "reads"))
def advance(config, variables, train=False, masked=True, reads="all"):
    """(predictions, carry), and what is sown."""
    model, rngs = config.build(SYMBOLS, SYMBOLS, reads), {"dropout": jax.random.key(0)}
    mask = MASK if masked else None
    return model.apply(variables, INPUTS, mask, train=train, method="advance", mutable=list(SOWN), rngs=rngs)


def sown(config=CONFIG, variables=VARIABLES, **how):
    _, found = advance(config, variables, **how)
    return {name: value for collection in found.values() for name, (value,) in collection.items()}


def gradient_of_penalty(config, variables):
    """Return the gradient of the penalty of schedules to all parameters."""

    def penalty(params):
        _, found = config.build(SYMBOLS, SYMBOLS, "all").apply(
            {**variables, "params": params}, INPUTS, train=True, method="advance", mutable=list(SOWN)
        )
        return found["penalties"]["schedule"][0]

    return jax.jit(jax.grad(penalty))(variables["params"])


def float64_schedule():
    """(m, share of the mask that is not zero), (b, t) each, from the paper's equations."""
    params = jax.tree.map(lambda a: np.asarray(a, np.float64), VARIABLES["params"])
    cell = params["recurrent"]["cell"]
    w = {
        "scheduler.input": cell["operator"]["scheduler_input"],
        "scheduler.recurrent": cell["operator"]["scheduler_recurrent"],
        "scheduler.bias": cell["bias"]["scheduler"],
        "unit.candidate.input": cell["input"]["unit_candidate"]["kernel"],
        "unit.candidate.recurrent": cell["recurrent"]["unit_candidate"]["kernel"],
        "unit.candidate.bias": cell["bias"]["unit_candidate"],
        "sharpness": 0.8,
    }
    start = np.tile(params["recurrent"]["initial_state"], (BATCH, 1))
    xs = params["embedding"]["table"][np.asarray(INPUTS.T)]
    _, _, info = oracles.loop(oracles.ORACLES["vcrnn"], w, start, xs)
    return info["proportion"].T, np.mean(info["mask"] > 0, axis=-1).T


def test_penalty_and_figures_are_means_over_steps_that_count():
    m, active = float64_schedule()
    targets = np.where(np.isin(INPUTS, [1, 3]), 0.9, 0.4)
    steps = np.asarray(MASK.sum(axis=1))

    def mean(values):
        return np.sum(values * np.asarray(MASK), axis=1) / steps

    found = sown(train=True)
    assert_close(found["schedule"], 0.7 * mean(np.abs(m - targets)).mean())
    assert_close((found["proportion"], found["active"], found["active_squared"]), (mean(m), mean(active), mean(active**2)))
    assert len(found) == 4


def test_the_other_mask_is_computed_for_metrics_only(monkeypatch):
    model = CONFIG.build(SYMBOLS, SYMBOLS, "all")
    variables, counted, passes = model.init(jax.random.key(0), INPUTS), [], VariableModel.passes
    monkeypatch.setattr(VariableModel, "passes", lambda model, *args: counted.append(args[3]) or passes(model, *args))
    model.apply(variables, INPUTS)
    model.apply(variables, INPUTS, mutable=["metrics"])
    assert counted == ["soft", "soft", "hard"]


def summary_at_lag(lag, **how):
    """What is reported of the metrics that are sown, with their means over examples."""
    config = VariableConfig(**{**vars(CONFIG), "lag": lag})
    found = sown(config, **how)
    return found, config.summarize({name: float(value.mean()) for name, value in found.items()})


def test_autocorrelation_of_pairs_within_the_windows():
    m, _ = float64_schedule()
    found, summary = summary_at_lag(2, masked=False)
    product = np.mean(m[:, :-2] * m[:, 2:])
    assert_close((found["proportion_squares"] / STEPS).mean(), np.mean(m**2))
    assert_close((found["lagged_products"] / (STEPS - 2)).mean(), product)
    assert summary["autocorrelation"] == pytest.approx((product - m.mean() ** 2) / m.var(), abs=1e-3)
    assert not {"schedule_steps", "schedule_pairs", "proportion_sum", "proportion_squares", "lagged_products"} & summary.keys()
    assert "autocorrelation" in summary_at_lag(STEPS - 1, masked=False)[1]
    assert "autocorrelation" not in summary_at_lag(STEPS)[1]


def test_autocorrelation_gives_all_steps_and_all_pairs_the_same_weight():
    """Of the sequences of 6, 4 and 1 steps, the last one has no pair."""
    m, _ = float64_schedule()
    found, summary = summary_at_lag(2)
    assert_close((found["schedule_steps"], found["schedule_pairs"]), ([6, 4, 1], [4, 2, 0]))
    steps = m[np.asarray(MASK)]
    products = (m[:, :-2] * m[:, 2:])[np.asarray(MASK)[:, 2:]]
    assert summary["autocorrelation"] == pytest.approx((products.mean() - steps.mean() ** 2) / steps.var(), abs=1e-3)


def test_both_steps_of_a_pair_count():
    """Steps of the padding may stand between others, and before them."""
    mask = jnp.array([[1, 1, 0, 1, 1, 1], [0, 0, 1, 1, 0, 1], [1, 0, 1, 0, 1, 0]], bool)
    config = VariableConfig(**{**vars(CONFIG), "lag": 1})
    _, found = config.build(SYMBOLS, SYMBOLS, "all").apply(VARIABLES, INPUTS, mask, mutable=list(SOWN))
    assert_equal(found["metrics"]["schedule_pairs"][0], jnp.array([3.0, 1.0, 0.0]))


def test_there_is_no_autocorrelation_without_pairs_or_of_a_constant():
    config = VariableConfig(**{**vars(CONFIG), "lag": 2})
    means = {"active": 0.5, "active_squared": 0.3, "schedule_steps": 2.0, "proportion_sum": 1.0, "proportion_squares": 0.5}
    for sums in ({"schedule_pairs": 0.0, "lagged_products": 0.0}, {"schedule_pairs": 1.0, "lagged_products": 0.25}):
        assert config.summarize(means | sums)["autocorrelation"] == 0


@pytest.mark.parametrize("steps", [20, 200, 5000])
def test_sums_of_a_constant_in_float32_have_no_autocorrelation(steps):
    config = VariableConfig(**{**vars(CONFIG), "lag": 1})
    for value in (0.1, 0.3, 0.7):
        m = jnp.full((steps, 1), value, jnp.float32)
        sums = (m.size, m.size - 1, jnp.sum(m), jnp.sum(m * m), jnp.sum(m[1:] * m[:-1]))
        metrics = dict(zip(SUMS, map(float, sums), strict=True)) | {"active": value, "active_squared": value**2}
        assert config.summarize(metrics)["autocorrelation"] == 0


def test_small_schedules_that_vary_have_an_autocorrelation():
    """Shares of 0.004 and 0.006 by turns: the variance is 1e-6, a 25th of the squared mean."""
    sums = (8.0, 7.0, 4 * 0.004 + 4 * 0.006, 4 * 0.004**2 + 4 * 0.006**2, 7 * 0.004 * 0.006)
    metrics = dict(zip(SUMS, sums, strict=True)) | {"active": 0.2, "active_squared": 0.04}
    assert VariableConfig(**{**vars(CONFIG), "lag": 1}).summarize(metrics)["autocorrelation"] == pytest.approx(-1)


@pytest.mark.parametrize(("form", "one_sided"), [("l1", False), ("l1", True), ("l2", False), ("l2", True)])
def test_forms_of_the_penalty(form, one_sided):
    m, target = np.array([0.1, 0.5, 0.9]), np.array([0.3, 0.3, 1.0])
    expected = [abs(d) if form == "l1" else d * d for d in (max(a - b, 0) if one_sided else a - b for a, b in zip(m, target, strict=True))]
    assert_close(schedule_penalty(jnp.asarray(m), jnp.asarray(target), form, one_sided), expected)


def test_the_hard_mask_is_the_hard_cell_and_is_compared_with_the_soft_one():
    config = VariableConfig(**{**vars(CONFIG), "evaluation": "hard"})
    (soft, _), _ = advance(CONFIG, VARIABLES)
    (hard, _), _ = advance(config, VARIABLES)
    found, other = sown(), sown(config)
    probabilities = [np.exp(logits) / np.exp(logits).sum(-1, keepdims=True) for logits in (np.asarray(soft), np.asarray(hard))]
    distance = mean_over_steps(jnp.asarray(np.abs(probabilities[0] - probabilities[1]).sum(-1).T / 2), MASK.T)
    same = mean_over_steps(jnp.asarray((soft.argmax(-1) == hard.argmax(-1)).T, jnp.float32), MASK.T)
    for figures in (found, other):
        assert_close((figures["output_distance"], figures["agreement"]), (distance, same))
    assert np.all(np.asarray(distance) > 0)
    shares = np.asarray(other["active"][2]) * SIZE  # of one step
    assert_close(shares, np.ceil(np.asarray(other["proportion"][2]) * SIZE))


@pytest.mark.parametrize("rounding", ["ceil", "floor"])
def test_blocks_compute_what_the_network_with_a_hard_mask_does(rounding):
    config = VariableConfig(**{**vars(CONFIG), "evaluation": "hard", "rounding": rounding})
    (expected, last), _ = advance(config, VARIABLES, masked=False)
    params, network = VARIABLES["params"]["recurrent"], recurrent_of(config, SYMBOLS)
    cut = blocks(cell_params(params, network, VARIABLES["settings"]["recurrent"]), (2, SIZE))
    xs = VARIABLES["params"]["embedding"]["table"][INPUTS[:1].T]
    h, ys = recur(block_step(config.cell, rounding), cut, initial_carry(params, network, 1), xs, loop="plain")
    assert_close(h, last[:1])
    readout = VARIABLES["params"]["readout"]
    assert_close(ys[:, 0] @ readout["kernel"] + readout["bias"][None], expected[0])


def test_a_sharp_soft_mask_agrees_with_the_hard_one():
    sharp = {**VARIABLES, "settings": jax.tree.map(lambda _: jnp.float32(1e6), VARIABLES["settings"])}
    figures = sown(VariableConfig(**{**vars(CONFIG), "rounding": "floor"}), sharp)
    assert_close((figures["agreement"], figures["output_distance"]), (np.ones(BATCH), np.zeros(BATCH)), atol=1e-6)


def test_both_masks_begin_from_the_given_state():
    sharp = {**VARIABLES, "settings": jax.tree.map(lambda _: jnp.float32(1e6), VARIABLES["settings"])}
    config = VariableConfig(**{**vars(CONFIG), "rounding": "floor"})
    start = Start(jnp.asarray(np.random.default_rng(2).standard_normal((BATCH, SIZE)), jnp.float32))
    _, found = config.build(SYMBOLS, SYMBOLS, "all").apply(sharp, INPUTS, None, start, method="advance", mutable=list(SOWN))
    assert_close(found["metrics"]["output_distance"][0], np.zeros(BATCH), atol=1e-6)


def test_outputs_are_dropped_in_training():
    config = VariableConfig(**{**vars(CONFIG), "output_dropout": 0.5})
    (dropped, _), _ = advance(config, VARIABLES, train=True)
    (whole, _), _ = advance(config, VARIABLES)
    assert np.all(np.any(np.asarray(dropped != whole), axis=(1, 2)))


def test_the_gradient_of_the_penalty_reaches_the_scheduler_alone_in_every_loop():
    """At the first step: later ones depend on the state, and that on everything."""
    gradients = [gradient_of_penalty(VariableConfig(**{**vars(CONFIG), "recurrence": loop}), VARIABLES) for loop in LOOPS]
    for gradient in gradients[1:]:
        assert_close(gradient, gradients[0], rtol=1e-5, atol=1e-7)
    assert np.all(np.asarray(gradients[0]["recurrent"]["cell"]["operator"]["scheduler_input"]) != 0)
    assert np.all(np.asarray(gradients[0]["readout"]["kernel"]) == 0)


def test_predictions_are_those_of_the_usual_network_and_the_last_one_can_be_read():
    usual = ModelConfig("vcrnn", SIZE, parametrization="dense", recurrence="plain")
    for reads in ("all", "last"):
        expected = SequenceModel(usual, SYMBOLS, SYMBOLS, reads).apply(VARIABLES, INPUTS, MASK)
        (predictions, _), _ = advance(CONFIG, VARIABLES, reads=reads)
        counted = MASK[..., None] if reads == "all" else True
        assert_close(jnp.where(counted, predictions, 0), jnp.where(counted, expected, 0))


def test_the_mean_over_no_steps_is_zero():
    mask = jnp.array([[True, False], [True, False]])
    assert_equal(mean_over_steps(jnp.array([[1.0, 5.0], [3.0, 5.0]]), mask), jnp.array([2.0, 0.0]))


def test_last_that_counts():
    ys = jnp.arange(6.0).reshape(3, 2, 1)
    mask = jnp.array([[True, False], [True, False], [False, False]])
    assert_equal(last_that_counts(ys, mask), jnp.array([[2.0], [1.0]]))
    assert_equal(last_that_counts(ys, None), ys[-1])


@pytest.mark.slow
def test_stacks_and_dropout():
    """Figures are means over layers; dropout changes the penalty, and the scheduler's own vectors are not dropped."""
    changes = {"cell": "vcgru", "layers": 2, "parametrization": "low_rank_plus_diagonal", "rank": 2, "state_dropout": 0.5}
    config = VariableConfig(**{**vars(CONFIG), **changes})
    variables = variables_of(config)
    assert len(jax.tree.leaves(variables["settings"])) == 2
    dropped, whole = sown(config, variables, train=True), sown(config, variables)
    assert np.all(np.asarray(dropped["proportion"]) != np.asarray(whole["proportion"]))
    assert whole["proportion"].shape == (BATCH,)


def test_the_schedule_of_a_stack_has_that_of_each_layer():
    layer = CELLS["vcrnn"].schedule
    infos = [VariableInfo(jnp.array([m]), jnp.array([[1.0, m, 0.0]]), ()) for m in (0.2, 0.7)]
    found = stacked(CELLS["vcrnn"], 2).schedule(tuple(infos))
    assert_equal(found, Schedule(jnp.array([[0.2, 0.7]]), jnp.full((1, 2), 2 / 3)))
    assert_equal(layer(infos[0]), Schedule(jnp.array([[0.2]]), jnp.full((1, 1), 2 / 3)))
    assert stacked(CELLS["gru"], 2).schedule is None


def sharpness_at(config, updates, epoch=7):
    at = jax.jit(lambda update: config.settings(update, epoch)["sharpness"])
    return [at(jnp.int32(update)) for update in updates]


def test_sharpness_by_epoch():
    assert_close(sharpness_at(CONFIG, [0, 6, 7, 13, 8 * 7, 9 * 7, 70, 350]), [0.1, 0.1, 0.2, 0.2, 0.9, 1.0, 1.0, 1.0])
    assert VariableConfig("gru").settings(jnp.int32(3), 7) == {}


def test_smooth_sharpness_agrees_with_that_by_epoch_where_epochs_begin():
    smooth = VariableConfig("vcrnn", 8, smooth_growth=True)
    begins = [0, 7, 8 * 7, 9 * 7, 70]
    assert_close(sharpness_at(smooth, begins), sharpness_at(VariableConfig("vcrnn", 8), begins))
    assert_close(sharpness_at(smooth, [1, 6, 62, 63, 64]), [0.1 + 0.1 / 7, 0.1 + 0.6 / 7, 0.1 + 6.2 / 7, 1.0, 1.0])


def test_when_the_sharpness_is_final():
    smooth, fixed = VariableConfig("vcrnn", 8, smooth_growth=True), VariableConfig("vcrnn", 8, sharpness_growth=0.0)
    assert [CONFIG.settled(update, 7) for update in (0, 62, 63, 500)] == [False, False, True, True]
    assert [smooth.settled(update, 7) for update in (0, 62, 63, 500)] == [False, False, True, True]
    assert fixed.settled(0, 7)
    assert VariableConfig("gru").settled(0, 7)


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["vcrnn", "vcgru", "vclstm"])
def test_a_cut_gradient_has_no_product_over_steps_and_the_same_values(cell):
    """The penalty depends on the unit through the states that the scheduler reads, and on nothing else of the unit."""
    config = VariableConfig(**{**vars(CONFIG), "cell": cell})
    cut = VariableConfig(**{**vars(config), "scheduler_gradient": "cut"})
    variables = variables_of(config)
    (full_logits, _), _ = advance(config, variables, train=True)
    (cut_logits, _), _ = advance(cut, variables, train=True)
    assert_equal(full_logits, cut_logits)
    gradient = {name: gradient_of_penalty(one, variables) for name, one in {"full": config, "cut": cut}.items()}
    unit = {name: jax.tree.leaves(own["recurrent"]["cell"]["recurrent"]) for name, own in gradient.items()}
    assert all(np.all(np.asarray(leaf) == 0) for leaf in unit["cut"])
    assert any(np.any(np.asarray(leaf) != 0) for leaf in unit["full"])
    loops = [VariableConfig(**{**vars(cut), "recurrence": loop}) for loop in LOOPS]
    for one in loops:
        assert_close(gradient_of_penalty(one, variables), gradient["cut"], rtol=1e-5, atol=1e-7)


def test_operations_of_a_run():
    dense = VariableConfig("vcgru", 20, parametrization="dense")
    figures = dense.summarize({"loss": 1.0, "active": 0.5, "active_squared": 0.3})
    assert figures["multiplications"] == pytest.approx(6 * 400 * 0.3 + 40)
    assert figures["equivalent_size"] == pytest.approx(np.sqrt((6 * 400 * 0.3 + 40) / 2))
    assert figures["paper_equivalent_size"] == pytest.approx(20 * np.sqrt(2 * 0.3))
    assert set(figures) == {"loss", "active", "multiplications", "equivalent_size", "paper_equivalent_size"}
    low_rank = VariableConfig("vcrnn", 20, rank=3, input_parametrization="low_rank", input_rank=2)
    found = low_rank.summarize({"active": 0.5, "active_squared": 0.3})
    assert found["multiplications"] == pytest.approx(0.5 * (2 * 3 * 20 + 20 + 2 * 2 * 20) + 40)
    assert "paper_equivalent_size" not in found
    assert VariableConfig("elman", 20, embedding=20, parametrization="dense").summarize({})["paper_equivalent_size"] == 20
    for shared in (False, True):  # layers that share parameters compute as much as others
        stack = VariableConfig("vcrnn", 20, parametrization="dense", layers=3, shared_layers=shared)
        found = stack.summarize({"active": 0.5, "active_squared": 0.3})
        assert found["multiplications"] == pytest.approx(3 * (2 * 400 * 0.3 + 40))
        assert "paper_equivalent_size" not in found
    half = VariableConfig("vcrnn", 20, parametrization="dense", input_parametrization="low_rank", input_rank=2)
    assert "paper_equivalent_size" not in half.summarize({"active": 0.5, "active_squared": 0.3})
    assert dense.summarize({"loss": 1.0}) == {"loss": 1.0}
    for uncounted in (VariableConfig("elman", 20), VariableConfig("unitary", 20, embedding=20)):
        assert uncounted.summarize({"loss": 1.0}) == {"loss": 1.0}


def test_operations_of_a_cell_that_is_registered_again_are_counted_again(tables):
    """As in a notebook, where the cell of one name changes."""

    def own(matrices):
        def template(spec):
            return tuple(MatrixSpec(spec.size, spec.size, "recurrent") for _ in range(matrices))

        return Cell(lambda params, carry, x: (carry, (carry, ())), template)

    for matrices in (1, 2, 1):
        CELLS["mine"] = own(matrices)
        found = VariableConfig("mine", 20, embedding=20, parametrization="dense").summarize({})
        assert found["multiplications"] == matrices * 400


def leaky(m):
    """Return a cell with a schedule of its own: every step updates the share m of the state."""

    def step(params, h, x):
        h = (1 - m) * h + m * jnp.tanh(params["a"].apply(x) + params["u"].apply(h))
        return h, (h, jnp.full((*h.shape[:-1], 1), m))

    def template(spec):
        return {"a": MatrixSpec(spec.input_size, spec.size, "input"), "u": MatrixSpec(spec.size, spec.size, "recurrent")}

    return Cell(step, template, schedule=lambda m: Schedule(m, m))


@pytest.mark.parametrize("name", ["mine", "vcrnn"])
@pytest.mark.parametrize("train", [True, False])
def test_a_schedule_of_your_own_is_trained_and_measured(name, train, tables):
    """Also under the name of a unit of this library."""
    CELLS[name] = leaky(0.25)
    config = VariableConfig(name, SIZE, embedding=SIZE, parametrization="dense", target=0.4, penalty_weight=0.5)
    assert {"schedule.gradient", "mask.epsilon", "mask.rounding", "mask.agreement"} <= config.unused.keys()
    found = sown(config, variables_of(config), train=train)
    np.testing.assert_allclose(found["proportion"], 0.25, rtol=1e-6)
    assert "agreement" not in found
    assert "paper_equivalent_size" not in config.summarize({name: float(jnp.mean(value)) for name, value in found.items()})
    if train:
        np.testing.assert_allclose(found["schedule"], 0.5 * 0.15, rtol=1e-5)
    with pytest.raises(UsageError, match=f"{name} has a mask of its own, and no hard one: choose soft for --model.mask.evaluation"):
        config.scheduled("hard")


def test_a_unit_of_this_library_has_both_masks_under_any_name(tables):
    CELLS["mine"] = CELLS["vcrnn"]
    config = VariableConfig("mine", SIZE, embedding=SIZE, parametrization="dense", epsilon=0.2)
    one, other = (sown(VariableConfig(**{**vars(config), "cell": cell}), variables_of(config)) for cell in ("mine", "vcrnn"))
    assert "agreement" in one
    assert_equal(one, other)


@pytest.mark.parametrize(
    ("inputs", "mask", "says"),
    [
        (INPUTS.astype(float), None, r"inputs are float32 of shape \(3, 6\): expected floats of shape \(batch, time, 4\), or integers"),
        (INPUTS, MASK.T, r"the mask has shape \(6, 3\): expected \(3, 6\), batch and time of the inputs"),
        (INPUTS + 9, None, "the inputs contain the symbol"),
    ],
    ids=["floats", "mask", "symbols"],
)
def test_inputs_of_another_form_have_no_schedule(inputs, mask, says):
    with pytest.raises(UsageError, match=says):
        CONFIG.build(SYMBOLS, SYMBOLS, "all").apply(VARIABLES, inputs, mask, method="schedule")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"penalty": "l3"}, "model.schedule.penalty is 'l3': choose from l1, l2"),
        ({"scheduler_gradient": "half"}, "model.schedule.gradient is 'half': choose from full, cut"),
        ({"evaluation": "both"}, "model.mask.evaluation is 'both': choose from soft, hard"),
        ({"rounding": "up"}, "model.mask.rounding is 'up'"),
        ({"target": 1.5}, "model.schedule.target is 1.5: expected a share from 0 to 1"),
        ({"guided_target": -0.1}, "model.schedule.guided_target is -0.1"),
        ({"penalty_weight": -1.0}, "model.schedule.penalty_weight is -1.0: expected a finite number, 0 or more"),
        ({"sharpness": 0.0}, "model.mask.sharpness is 0.0"),
        ({"sharpness": 2.0}, "model.mask.sharpness is 2.0 and model.mask.end 1.0"),
        ({"sharpness_end": float("inf")}, "model.mask.sharpness is 0.1 and model.mask.end inf"),
        ({"sharpness_growth": float("nan")}, "model.mask.growth is nan"),
        ({"epsilon": 0.5}, "model.mask.epsilon is 0.5: expected a number from 0 to below 0.5"),
        ({"lag": -1}, "model.schedule.lag is -1: expected 0 or more"),
        ({"guided_symbols": (2, -1)}, "model.schedule.guided_symbols is 2 -1: expected numbers of symbols, from 0 on"),
    ],
)
def test_bad_input_is_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        VariableConfig(**{**vars(CONFIG), **changes})


def test_symbols_that_the_task_does_not_have_are_refused():
    with pytest.raises(UsageError, match="guided_symbols has 3, and the task has 3 symbols"):
        CONFIG.build(3, 3, "all")
    VariableConfig("gru", SIZE, rank=2, guided_symbols=(3,)).build(3, 3, "all")  # nothing is guided without a scheduler
    model = CONFIG.build(SYMBOLS, SYMBOLS, "all")
    with pytest.raises(UsageError, match="this task has vectors as inputs"):
        jax.eval_shape(lambda: model.apply(VARIABLES, jnp.zeros((1, 2, SYMBOLS)), train=True, mutable=list(SOWN)))


def test_squares_of_a_stack_are_those_of_each_layer():
    config = VariableConfig(**{**vars(CONFIG), "layers": 2, "evaluation": "hard"})
    variables = variables_of(config)
    _, m = config.build(SYMBOLS, SYMBOLS, "all").apply(variables, INPUTS, method="schedule")
    active = np.ceil(np.asarray(m) * SIZE) / SIZE  # (b, t, layers)
    assert np.any(active[..., 0] != active[..., 1])
    found = sown(config, variables, masked=False)
    assert_close((found["active"], found["active_squared"]), (active.mean((1, 2)), np.square(active).mean((1, 2))))
