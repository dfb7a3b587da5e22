"""Networks: initial state, loop, readout."""

from dataclasses import dataclass, replace
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from flax.serialization import msgpack_restore, to_bytes
from flax.traverse_util import flatten_dict, path_aware_map
from table import (
    BATCH,
    INPUT_SIZE,
    RANK,
    SIZE,
    STEPS,
    Network,
    Row,
    Tripled,
    assert_close,
    assert_equal,
    cell_without_a_state,
    every_cell_and_every_row_of_the_gru,
    parameters_module,
    width_of_input,
)

from lrpt.cells import CELLS, LSTMCarry, title_of
from lrpt.errors import UsageError
from lrpt.matrices import Dense, Diagonal, Sum, SymbolInputs, Work, low_rank_plus_diagonal
from lrpt.networks import recurrent
from lrpt.networks.counting import count
from lrpt.networks.over_time import over_time
from lrpt.networks.protocol import Start
from lrpt.networks.recurrent import Recurrent, initial_carry, initial_row
from lrpt.networks.sequence_model import ModelConfig, SequenceModel, recurrent_of
from lrpt.networks.variable_computation import VariableConfig
from lrpt.parametrizations import PARAMETRIZATIONS, Parametrization
from lrpt.pytrees import register_fields
from lrpt.recurrence import LOOPS, recur
from lrpt.recurrence.materialize import materialized
from lrpt.runs.named_arrays import from_named, to_named

OUTPUT_SIZE = 4
LRD = Row("gru", "low_rank_plus_diagonal")
MASK = jnp.arange(STEPS)[None] < jnp.array([6, 3, 1, 4])[:, None]


def inputs(size):
    return jnp.asarray(np.random.default_rng(1).standard_normal((BATCH, STEPS, size)), jnp.float32)


XS = inputs(INPUT_SIZE)


def model_and_params(config, reads="last", input_size=INPUT_SIZE):
    model = SequenceModel(config, input_size, OUTPUT_SIZE, reads)
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(model.init, jax.random.key(0), inputs(input_size))
    return model, jax.tree.map(lambda a: (0.5 * rng.standard_normal(a.shape)).astype(np.float32), shapes)


@pytest.mark.slow
@every_cell_and_every_row_of_the_gru
def test_shapes(row):
    for reads, shape in (("last", (BATCH, OUTPUT_SIZE)), ("all", (BATCH, STEPS, OUTPUT_SIZE))):
        size = width_of_input(row.cell)
        model, xs = SequenceModel(row.config(), size, OUTPUT_SIZE, reads), inputs(size)
        params = jax.eval_shape(model.init, jax.random.key(0), xs)
        predictions = jax.eval_shape(model.apply, params, xs)
        assert (predictions.shape, predictions.dtype) == (shape, jnp.float32)


def float64_predictions(row, variables, xs):
    """(b, t, o) from the initial state on, by the oracle of the cell."""
    params = variables["params"]
    template, module = parameters_module(row)
    cell_params = module.apply({name: collection["recurrent"]["cell"] for name, collection in variables.items()})
    weights = Network(CELLS[row.cell], template, cell_params, None, None).arrays()
    own = initial_row(params["recurrent"], Recurrent(row.config(), width_of_input(row.cell)))
    start = jax.tree.map(lambda h: np.tile(h.astype(np.float64), (BATCH, 1)), own)
    if "embedding" in params:
        xs = np.asarray(xs, np.float64) @ params["embedding"]["table"]
    _, ys, _ = oracles.loop(oracles.ORACLES[row.cell], weights, start, jnp.swapaxes(xs, 0, 1))
    return np.swapaxes(ys @ params["readout"]["kernel"] + params["readout"]["bias"], 0, 1)


@pytest.mark.slow
@every_cell_and_every_row_of_the_gru
def test_predictions_equal_the_float64_loop(row):
    size = width_of_input(row.cell)
    (model, variables), xs = model_and_params(row.config(), reads="all", input_size=size), inputs(size)
    assert_close(jax.jit(model.apply)(variables, xs), float64_predictions(row, variables, xs), rtol=5e-6, atol=5e-6)


@pytest.mark.parametrize("recurrence", LOOPS)
def test_last_is_the_last_step_that_counts_in_every_loop(recurrence):
    tagger, params = model_and_params(LRD.config(), reads="all")
    classifier, _ = model_and_params(LRD.config(recurrence=recurrence))
    everywhere = jax.jit(tagger.apply)(params, XS)
    classify = jax.jit(classifier.apply)
    assert_close(classify(params, XS), everywhere[:, -1])
    assert_close(classify(params, XS, MASK), everywhere[jnp.arange(BATCH), MASK.sum(1) - 1])


def test_padding_changes_nothing():
    model, params = model_and_params(LRD.config())

    @jax.jit
    @jax.value_and_grad
    def loss(params, xs):
        return jnp.sin(model.apply(params, xs, MASK)).sum()

    assert_equal(loss(params, jnp.where(MASK[..., None], XS, 9.0)), loss(params, XS))


def test_integers_are_one_hot_vectors():
    model, params = model_and_params(LRD.config(), reads="all")
    symbols = jnp.asarray(np.random.default_rng(2).integers(0, INPUT_SIZE, (BATCH, STEPS)))
    apply = jax.jit(model.apply)
    assert_close(apply(params, symbols), apply(params, jax.nn.one_hot(symbols, INPUT_SIZE)))


def test_start_of_training():
    """Biases, initial state and readout as in lowrank-gru, models.py; the readout's matrix is Glorot uniform."""
    n, o = 60, 30
    model = SequenceModel(ModelConfig(size=n, rank=8, carry_bias=4.0), INPUT_SIZE, o)
    params = jax.jit(model.init)(jax.random.key(0), XS)["params"]
    assert_equal(params["recurrent"]["initial_state"], jnp.zeros(n))
    assert_equal(params["recurrent"]["cell"]["bias"]["update"], jnp.full(n, 4.0))
    assert_equal(params["readout"]["bias"], jnp.zeros(o))
    bound = np.sqrt(6 / (n + o))
    assert 0.95 * bound < np.abs(params["readout"]["kernel"]).max() <= bound


def test_weight_norm_leaves_the_readout_alone():
    shapes = [
        jax.eval_shape(SequenceModel(LRD.config(weight_norm=w), INPUT_SIZE, OUTPUT_SIZE).init, jax.random.key(0), XS)["params"]
        for w in (False, True)
    ]
    assert shapes[0]["readout"] == shapes[1]["readout"]
    assert shapes[1]["recurrent"]["cell"].keys() - shapes[0]["recurrent"]["cell"].keys() == {"input_scale", "recurrent_scale"}


def test_initial_state_is_learned_or_zero():
    learned, params = model_and_params(LRD.config())
    fixed, fixed_params = model_and_params(LRD.config(trainable_initial_state=False))
    assert "initial_state" not in fixed_params["params"]["recurrent"]
    recurrent = params["params"]["recurrent"]
    at_zero = {"params": {**params["params"], "recurrent": {**recurrent, "initial_state": np.zeros(SIZE, np.float32)}}}
    without = {"params": {**params["params"], "recurrent": {"cell": recurrent["cell"]}}}
    assert_close(jax.jit(learned.apply)(at_zero, XS), jax.jit(fixed.apply)(without, XS))
    gradient = jax.jit(jax.grad(lambda p: learned.apply(p, XS).sum()))(params)
    assert np.all(gradient["params"]["recurrent"]["initial_state"])


def test_carry_bias_saturates_the_gate():
    """The prediction is the readout of the initial state, whatever the inputs."""
    model, params = model_and_params(LRD.config())
    recurrent = params["params"]["recurrent"]
    recurrent["cell"]["bias"]["update"] += 100
    readout = params["params"]["readout"]
    expected = recurrent["initial_state"] @ readout["kernel"] + readout["bias"]
    assert_close(jax.jit(model.apply)(params, XS), np.tile(expected, (BATCH, 1)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cell": "grru"}, r"model\.cell is 'grru': choose from gru, .*\(the closest of \d+\)"),
        ({"cell": "GRU"}, r"model\.cell is 'GRU': choose from gru, "),
        ({"recurrence": "fastest"}, r"model\.loop\.kind is 'fastest': choose from .*plain"),
        ({"size": 0}, r"model\.size is 0: expected 1 or more"),
        ({"size": -3}, r"model\.size is -3"),
    ],
)
def test_bad_configuration_is_one_line(changes, message):
    with pytest.raises(UsageError, match=message) as error:
        LRD.config(**changes)
    assert "\n" not in str(error.value)


def test_rank_that_does_not_fit_is_one_line():
    model = SequenceModel(LRD.config(rank=SIZE + 1), INPUT_SIZE, OUTPUT_SIZE)
    with pytest.raises(UsageError, match=f"rank {SIZE + 1} does not fit"):
        jax.eval_shape(model.init, jax.random.key(0), XS)


@pytest.mark.parametrize(
    ("config", "label"),
    [
        (ModelConfig(), "LRD-GRU 128/24"),
        (ModelConfig(parametrization="dense"), "GRU 128"),
        (ModelConfig(parametrization="low_rank", size=512, rank=4), "LR-GRU 512/4"),
        (ModelConfig("gru_reset_after", tied=True, weight_norm=True), "LRD-GRU (reset after) 128/24 tied weight norm"),
        (ModelConfig("unitary", 8, tied=True, layers=3), "uRNN 8 3 layers"),
        (ModelConfig("gru", 8, tied=True, parametrization="dense"), "GRU 8"),
        (ModelConfig("gru", 8, tied=True, parametrization="monarch", blocks=2), "MO-GRU 8/2"),
        (ModelConfig("gru", 8, tied=True, parametrization="adapter", rank=2), "LoRA-GRU 8/2"),
    ],
)
def test_label(config, label):
    assert config.label == label


@pytest.mark.parametrize(
    ("cell", "size", "widths", "published"),
    [
        ("unitary", 128, (10, 9), 6_153),
        ("unitary", 512, (2, 1), 8_193),
        ("unitary", 512, (1, 10), 16_394),
        ("unitary_without_fourier", 721, (10, 10), 36_781),
    ],
)
def test_unitary_networks_have_the_published_number_of_parameters(cell, size, widths, published):
    config = ModelConfig(cell=cell, size=size)
    assert count(config, *widths).true == published
    assert config.label == f"{title_of(cell)} {size}"


def test_a_trainable_state_starts_where_the_cell_says():
    """Uniform in +-sqrt(3 / 2n) for the unitary network, another draw for every seed."""
    model = SequenceModel(ModelConfig(cell="unitary", size=50), 1, 2)
    starts = [model.init(jax.random.key(seed), jnp.zeros((1, 2, 1)))["params"]["recurrent"]["initial_state"] for seed in (0, 1)]
    assert np.abs(starts[0] - starts[1]).max() > 0
    assert 0.9 < np.abs(starts[0]).max() / np.sqrt(3 / 100) <= 1


def test_depth_is_of_cells_that_have_it():
    assert ModelConfig(cell="rhn", depth=3).label == "LRD-RHN 128/24 depth 3"
    for depth in (2, 3):
        with pytest.raises(UsageError, match="expected 1 for gru"):
            ModelConfig(depth=depth)


def test_a_readout_by_the_embedding_has_as_many_classes_as_symbols():
    model = ModelConfig(size=4, rank=2, embedding=4, tie_embedding=True).build(5, 6, "all")
    with pytest.raises(UsageError, match=r"4 against 4, 6 against 5: change --model\.embeddings\.width"):
        jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((1, 1), jnp.int32))


@pytest.mark.parametrize("choice", ["always", "auto", "never"])
def test_multiplied_out_matrices_give_the_same_predictions_and_gradients(choice):
    """2d > 0.7n and 240 rows: 'auto' multiplies out."""
    inputs = jnp.asarray(np.random.default_rng(0).standard_normal((12, 20, 3)), jnp.float32)

    def loss(params, materialize):
        model = SequenceModel(ModelConfig(size=6, rank=3, materialize=materialize), 3, 2)
        return jnp.sum(jnp.sin(model.apply(params, inputs)))

    params = SequenceModel(ModelConfig(size=6, rank=3), 3, 2).init(jax.random.key(0), inputs)
    run = jax.jit(jax.value_and_grad(loss), static_argnums=1)
    assert_close(run(params, choice), run(params, "never"), atol=1e-5)


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize(
    ("types", "expected"),
    [(("bfloat16", "bfloat16"), "bfloat16"), (("float32", "bfloat16"), "float32"), (("bfloat16", "float32"), "float32")],
)
def test_a_network_computes_in_the_precision_of_its_parameters_and_inputs(types, expected, trainable):
    """A state of zeros raises it no more than a trainable one."""
    model = SequenceModel(ModelConfig("lstm", size=6, rank=3, trainable_initial_state=trainable), 3, 2)
    inputs = jnp.ones((2, 5, 3))
    params = model.init(jax.random.key(0), inputs)
    predictions = model.apply(jax.tree.map(lambda a: a.astype(types[0]), params), inputs.astype(types[1]))
    assert predictions.dtype == expected
    assert_close(predictions.astype(jnp.float32), model.apply(params, inputs), rtol=0.05, atol=0.02)


class ScaledMatrices(Parametrization):
    """Dense matrices of a user's, each with a Python number beside its array."""

    @nn.compact
    def __call__(self):
        draw = nn.initializers.normal(0.5)
        return {name: Scaled(self.param(name, draw, (spec.n_in, spec.n_out)), 0.5) for name, spec in self.specs.items()}


@register_fields
@dataclass(frozen=True)
class Scaled:
    kernel: jax.Array
    scale: float

    def apply(self, v):
        return self.scale * (v @ self.kernel)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_matrix_of_a_user_may_hold_a_number_beside_its_array(loop, precision, monkeypatch):
    """A gate with half of a kernel equals a dense gate with a kernel of half the size. The number does not change the precision."""
    monkeypatch.setitem(PARAMETRIZATIONS, "scaled", ScaledMatrices)
    inputs = jnp.ones((2, 5, 3), precision)
    model, dense = (ModelConfig("gru", size=4, parametrization=kind, recurrence=loop).build(3, 2, "last") for kind in ("scaled", "dense"))
    params = jax.tree.map(lambda a: a.astype(precision), model.init(jax.random.key(0), inputs))
    recurrent = params["params"]["recurrent"]
    halved = {name: {"kernel": 0.5 * kernel} for name, kernel in recurrent["cell"]["recurrent"].items()}
    same = {"params": {**params["params"], "recurrent": {**recurrent, "cell": {**recurrent["cell"], "recurrent": halved}}}}
    predictions = model.apply(params, inputs)
    assert predictions.dtype == precision
    assert_close(predictions, dense.apply(same, inputs), rtol=1e-5 if precision == "float32" else 0.05)


def test_the_penalty_of_a_cell_is_for_training():
    model, inputs = ModelConfig("unitary_without_fourier", 4).build(3, 2, "last"), jnp.ones((2, 5, 3))
    variables = jax.eval_shape(model.init, jax.random.key(0), inputs)
    applied = [partial(model.apply, train=train, mutable=["penalties"]) for train in (False, True)]
    assert [len(jax.tree.leaves(jax.eval_shape(apply, variables, inputs)[1])) for apply in applied] == [0, 1]


def test_every_row_of_every_step_counts_among_the_products_that_a_full_matrix_saves(monkeypatch):
    seen = []
    monkeypatch.setattr(recurrent, "materialized", lambda params, choice, rows: seen.append(rows) or materialized(params, choice, rows))
    model = ModelConfig("elman", 8, parametrization="low_rank", rank=4).build(3, 2, "last")
    jax.eval_shape(model.init, jax.random.key(0), jax.ShapeDtypeStruct((6, 7, 3), jnp.float32))
    assert seen == [6 * 7]


@dataclass(frozen=True)
class Priced:
    """A matrix of a user's that knows its costs: three products for a row, and two to be multiplied out."""

    slowness: float = 1.0
    shape = 2, 2
    dense_products = 2

    def work(self, share=1):
        return Work(3, 100)

    def apply(self, v):
        return v

    def to_dense(self):
        return jnp.eye(2)


@pytest.mark.parametrize(("slowness", "rows", "full"), [(1.0, 11, True), (1.0, 9, False), (2.0, 1, True), (0.9, 1000, False)])
def test_any_matrix_that_knows_its_costs_is_multiplied_out_where_that_is_less_work(slowness, rows, full):
    """A full product of 2 x 2 counts as 2.8: 0.2 are saved with each row, 3.2 if products are slow. Elementwise products are free."""
    priced = Priced(slowness)
    found = materialized({"matrix": priced}, "auto", rows)["matrix"]
    assert isinstance(found, Dense) == full


def test_a_matrix_that_knows_one_of_its_costs_is_multiplied_out_only_when_asked():
    class Unpriced(Priced):
        @property
        def dense_products(self):
            raise AttributeError

    assert [isinstance(materialized(Unpriced(), choice, 10**9), Dense) for choice in ("auto", "always")] == [False, True]


@pytest.mark.parametrize("holder", [lambda matrix: matrix, lambda matrix: Sum((matrix,)), lambda matrix: SymbolInputs(matrix, 3)])
def test_a_matrix_that_is_applied_in_another_way_than_multiplied_out_stays_as_it_is(holder):
    matrix = Tripled(jnp.ones((1, 3)), jnp.ones((1, 3)))
    assert materialized([holder(matrix)], "always", 10**9)[0].apply(jnp.ones(3))[0] == 9


def test_matrices_without_matrix_products_stay_as_they_are():
    diagonal = Diagonal(jnp.ones(3))
    assert materialized([diagonal], "always", 10**9)[0] is diagonal


@pytest.mark.parametrize(
    ("choice", "rank", "rows", "full"),
    [("auto", 50, 9_000, True), ("auto", 24, 9_000, False), ("auto", 50, 100, False), ("always", 2, 1, True), ("never", 120, 9_000, False)],
)
def test_matrices_are_multiplied_out_where_that_is_less_work(choice, rank, rows, full):
    matrix = low_rank_plus_diagonal(jnp.ones((rank, 128)), jnp.ones((rank, 128)), jnp.ones(128))
    (found,) = jax.tree.leaves(materialized([matrix], choice, rows), is_leaf=lambda node: hasattr(node, "apply"))
    assert isinstance(found, Dense) == full


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((BATCH, STEPS, INPUT_SIZE + 1), float),
        ((STEPS, INPUT_SIZE), float),
        ((BATCH, STEPS, INPUT_SIZE), int),
        ((BATCH, STEPS, INPUT_SIZE), complex),
    ],
)
def test_inputs_of_other_shapes_are_one_line(shape, dtype):
    model, params = model_and_params(LRD.config())
    with pytest.raises(UsageError, match=rf"expected floats of shape \(batch, time, {INPUT_SIZE}\), or integers") as error:
        model.apply(params, jnp.zeros(shape, dtype))
    assert str(shape) in str(error.value)


def test_a_sequence_of_no_steps_is_named_by_the_shape_that_was_given():
    model, params = model_and_params(LRD.config())
    with pytest.raises(UsageError, match=rf"inputs have shape \({BATCH}, 0, {INPUT_SIZE}\), so there is no last step"):
        model.apply(params, XS[:, :0])


def test_a_mask_of_other_shape_is_one_line():
    model, params = model_and_params(LRD.config())
    with pytest.raises(UsageError, match=rf"the mask has shape \({STEPS}, {BATCH}\): expected \({BATCH}, {STEPS}\)"):
        model.apply(params, XS, MASK.T)


def test_a_network_that_reads_or_predicts_nothing_is_one_line():
    for sizes, says in (((0, 2, "last"), "input_size is 0"), ((2, 0, "last"), "output_size is 0"), ((2, 2, "first"), "reads is 'first'")):
        with pytest.raises(UsageError, match=says):
            LRD.config().build(*sizes).init(jax.random.key(0), jnp.zeros((1, 1), int))


def test_what_is_read_is_checked_when_a_network_is_built():
    for config in (LRD.config(), VariableConfig("vcgru", SIZE, rank=2)):
        with pytest.raises(UsageError, match="reads is 'first': choose from last, all"):
            config.build(2, 2, "first")


@pytest.mark.parametrize("state", [(), None])
def test_a_cell_without_a_state_goes_on_from_it(state, tables):
    CELLS["mine"] = cell_without_a_state(state)
    model = SequenceModel(ModelConfig("mine", SIZE, parametrization="dense"), INPUT_SIZE, OUTPUT_SIZE, "all")
    params = model.init(jax.random.key(0), XS)
    predictions, carry = model.apply(params, XS, method="advance")
    for reset in (False, jnp.arange(BATCH) == 1):
        assert_equal(model.apply(params, XS, None, Start(carry, reset), method="advance"), (predictions, state))
    with pytest.raises(UsageError, match=rf"reset has shape \({BATCH + 1},\): expected \({BATCH},\), one entry for each row"):
        model.apply(params, XS, None, Start(carry, jnp.zeros(BATCH + 1, bool)), method="advance")


def test_a_state_starts_the_next_window_for_as_many_rows():
    model, params = model_and_params(LRD.config(), reads="all")
    first, carry = model.apply(params, XS[:, :4], method="advance")
    second, _ = model.apply(params, XS[:, 4:], None, Start(carry), method="advance")
    assert_close(jnp.concatenate([first, second], axis=1), model.apply(params, XS), rtol=1e-6)
    anew, _ = model.apply(params, XS[:, 4:], None, Start(carry, True), method="advance")
    assert_close(anew, model.apply(params, XS[:, 4:]), rtol=1e-6)
    with pytest.raises(UsageError, match=f"the state has {BATCH} rows and the inputs have 1: give a state with one row"):
        model.apply(params, XS[:1], None, Start(carry), method="advance")
    with pytest.raises(UsageError, match=rf"the state to start from has shapes \({BATCH}, {SIZE - 1}\): expected \({BATCH}, {SIZE}\)"):
        model.apply(params, XS, None, Start(carry[:, 1:]), method="advance")
    with pytest.raises(UsageError, match=r"the state to start from is a .*: give lrpt\.Start\(carry\)"):
        model.apply(params, XS, None, carry, method="advance")
    with pytest.raises(UsageError, match=rf"reset has shape \({BATCH + 1},\): expected \({BATCH},\), one entry for each row"):
        model.apply(params, XS, None, Start(carry, jnp.zeros(BATCH + 1, bool)), method="advance")


@pytest.mark.parametrize("cell", ["gru", "unitary"])
def test_complex_inputs_and_states_are_one_line_and_integers_are_states(cell):
    model, params = model_and_params(Row(cell, "low_rank" if cell == "gru" else "dense").config(), reads="all")
    with pytest.raises(UsageError, match=r"inputs are complex64 .*; give real and imaginary parts as components of their own"):
        model.apply(params, XS.astype(complex))
    _, carry = model.apply(params, XS, method="advance")
    with pytest.raises(UsageError, match="the state to start from is complex64: expected float32, as `advance` returned it"):
        model.apply(params, XS, None, Start(carry.astype(complex)), method="advance")
    expected = model.apply(params, XS, None, Start(carry.astype(int).astype(carry.dtype)), method="advance")
    assert_equal(model.apply(params, XS, None, Start(carry.astype(int)), method="advance"), expected)


def test_lists_are_refused():
    model, params = model_and_params(LRD.config(), reads="all")
    with pytest.raises(UsageError, match=r"inputs is a list: give an array, such as jnp\.asarray\(inputs\)"):
        model.apply(params, [[[0.0] * XS.shape[2]]])
    with pytest.raises(UsageError, match=r"mask is a list: give an array"):
        model.apply(params, XS[:1], [[True] * XS.shape[1]])


@pytest.mark.parametrize("name", ["rank", "size", "layers", "depth", "blocks", "input_rank", "embedding", "chunk"])
@pytest.mark.parametrize("value", [2.5, "8"])
def test_sizes_that_are_no_integers_are_one_line(name, value):
    with pytest.raises(UsageError, match=rf"model\..* is {value!r}: expected an integer"):
        ModelConfig("gru", **{name: value})


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"rank": None}, "model.matrices.rank is None: expected an integer"),
        ({"input_rank": True}, "model.inputs.rank is True: expected an integer"),
        ({"density": "a"}, "model.matrices.density is 'a': expected a number"),
    ],
)
def test_settings_of_storage_of_other_types_are_one_line(settings, says):
    with pytest.raises(UsageError, match=says):
        ModelConfig("gru", **settings)


@pytest.mark.parametrize("trained", [False, True])
def test_outside_of_the_network_the_initial_state_has_the_type_of_the_parameters_too(trained):
    network = Recurrent(ModelConfig("gru", SIZE, rank=RANK, trainable_initial_state=trained), INPUT_SIZE)
    params = network.init(jax.random.key(0), jnp.zeros((BATCH, STEPS, INPUT_SIZE)))["params"]
    narrow = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    assert initial_carry(params, network, BATCH).dtype == jnp.float32
    assert initial_carry(narrow, network, BATCH).dtype == jnp.bfloat16


@pytest.mark.parametrize("name", ["cell", "initial_state"])
def test_a_state_is_as_wide_as_the_widest_of_matrices_and_initial_state(name):
    network = Recurrent(ModelConfig("gru", SIZE, rank=RANK, recurrence="plain"), INPUT_SIZE)
    xs = jnp.ones((STEPS, BATCH, INPUT_SIZE), jnp.bfloat16)
    params = network.init(jax.random.key(0), xs)["params"]
    narrow = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    assert network.apply({"params": narrow}, xs)[0].dtype == jnp.bfloat16
    mixed = {**narrow, name: params[name]}
    assert network.apply({"params": mixed}, xs)[0].dtype == initial_carry(mixed, network, BATCH).dtype == jnp.float32


def test_the_default_rank_says_that_it_is_the_default():
    says = r"rank 24 does not fit .* 8 x 8: choose one from 1 to 8, or a dense matrix \(24 is the default rank\)"
    with pytest.raises(UsageError, match=says):
        ModelConfig("gru", size=8).parameter_shapes(3, 2)


def test_variables_of_another_readout_are_one_line():
    model, variables = model_and_params(LRD.config())
    wider = SequenceModel(model.config, INPUT_SIZE, OUTPUT_SIZE + 1)
    says = rf"readout has arrays of shapes .*\({SIZE}, {OUTPUT_SIZE}\).*: expected .*\({SIZE}, {OUTPUT_SIZE + 1}\)"
    with pytest.raises(UsageError, match=says):
        wider.apply(variables, XS)
    with pytest.raises(UsageError, match=r"readout has arrays of shapes \{\}: .* with the collection 'params'"):
        model.apply(variables["params"], XS)


@pytest.mark.parametrize("read", [lambda v: msgpack_restore(to_bytes(v)), lambda v: json_like(v)], ids=["msgpack", "lists"])
def test_an_initial_state_may_come_from_a_file_without_types(read):
    model, variables = model_and_params(ModelConfig("lstm", size=SIZE, rank=2, layers=2))
    recurrent = Recurrent(model.config, INPUT_SIZE)
    found = read(variables)
    assert_equal(model.apply(found, XS), model.apply(variables, XS))
    first, expected = (initial_carry(v["params"]["recurrent"], recurrent, BATCH) for v in (found, variables))
    assert_equal(first, expected)


def json_like(tree):
    """Return a tree with a dict for each named tuple and a list for each other tuple, as Orbax restores it."""
    if hasattr(tree, "_asdict"):
        tree = tree._asdict()
    if isinstance(tree, dict):
        return {name: json_like(part) for name, part in tree.items()}
    return [json_like(part) for part in tree] if isinstance(tree, tuple) else tree


@pytest.mark.parametrize("layers", [1, 12])
def test_a_sequence_continues_from_a_state_that_was_restored_without_a_target(layers):
    """msgpack restores the state of each layer as a dict, and the layers as a dict of numbers. A bare tuple is refused in one line."""
    model = SequenceModel(ModelConfig("lstm", size=4, rank=2, layers=layers), 3, 2, "all")
    xs = inputs(3)
    variables = model.init(jax.random.key(0), xs)
    _, carry = model.apply(variables, xs, method="advance")
    restored = msgpack_restore(to_bytes(carry))
    assert isinstance(restored, dict)
    expected = model.apply(variables, xs, None, Start(carry), method="advance")
    assert_equal(model.apply(variables, xs, None, Start(restored), method="advance"), expected)
    for bare in (tuple(jax.tree.leaves(carry)), jnp.zeros((BATCH, 4)), {"c": carry}):
        with pytest.raises(UsageError, match=r"the state to start from has shapes .*: expected .*LSTMCarry"):
            model.apply(variables, xs, None, Start(bare), method="advance")


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell", CELLS)
def test_parameters_are_dicts_of_arrays_with_strings_as_keys(cell, layers):
    """So that functions of Flax and optax which take the path of a parameter can read it."""
    shapes = ModelConfig(cell, SIZE, rank=RANK, layers=layers, embedding=SIZE).parameter_shapes(INPUT_SIZE, OUTPUT_SIZE)
    keys = [key for path, _ in jax.tree_util.tree_leaves_with_path(shapes) for key in path]
    assert all(isinstance(key, jax.tree_util.DictKey) and isinstance(key.key, str) for key in keys)
    named = flatten_dict(shapes, sep="/")
    assert len(named) == len(jax.tree.leaves(shapes))
    assert path_aware_map(lambda path, leaf: named["/".join(path)] is leaf, shapes) == jax.tree.map(lambda leaf: True, shapes)


@pytest.mark.parametrize(
    ("cell", "layers", "names"),
    [
        ("gru", 1, [()]),
        ("lstm", 1, [("c",), ("h",)]),
        ("gru", 2, [("0",), ("1",)]),
        ("lstm", 2, [(k, part) for k in "01" for part in "ch"]),
    ],
)
def test_arrays_of_an_initial_state_have_the_names_of_fields_and_the_numbers_of_layers(cell, layers, names):
    shapes = ModelConfig(cell, SIZE, rank=RANK, layers=layers).parameter_shapes(INPUT_SIZE, OUTPUT_SIZE)
    stored = {path[2:]: leaf for path, leaf in flatten_dict(shapes).items() if path[:2] == ("recurrent", "initial_state")}
    assert list(stored) == names
    assert {leaf.shape for leaf in stored.values()} == {(SIZE,)}


def test_an_initial_state_is_read_in_the_form_of_earlier_versions_and_of_files():
    """Earlier versions stored tuples and named tuples. The names in .npz files are the same."""
    model, variables = model_and_params(ModelConfig("lstm", SIZE, rank=RANK, layers=2))
    recurrent = variables["params"]["recurrent"]
    earlier = tuple(LSTMCarry(**recurrent["initial_state"][str(k)]) for k in range(2))
    before = {"params": {**variables["params"], "recurrent": {**recurrent, "initial_state": earlier}}}
    assert_equal(model.apply(before, XS), model.apply(variables, XS))
    arrays = to_named(before)
    assert "params/recurrent/initial_state/1/c" in arrays
    assert_equal(from_named(variables, arrays), variables)


def test_keys_of_an_initial_state_are_dealt_in_the_order_of_layers():
    """So that a seed gives the numbers that it gave before states were stored in dicts, which JAX sorts as '0', '1', '10', '2'."""
    network = Recurrent(ModelConfig("unitary", SIZE, layers=11), INPUT_SIZE)
    zeros = jax.tree.map(jnp.zeros, network.cell.carry(network.spec))
    drawn = network._draw_state(jax.random.key(0), zeros)
    spread = network.cell.initial_spread(network.spec)
    for k, (key, zero) in enumerate(zip(jax.random.split(jax.random.key(0), 11), zeros, strict=True)):
        assert_equal(drawn[str(k)], jax.random.uniform(key, zero.shape, zero.dtype, -spread, spread))


def test_an_initial_state_of_another_cell_is_one_line():
    model, variables = model_and_params(ModelConfig("lstm", SIZE, rank=RANK))
    recurrent = variables["params"]["recurrent"]
    other = {"params": {**variables["params"], "recurrent": {**recurrent, "initial_state": {"c": recurrent["initial_state"]["c"]}}}}
    with pytest.raises(UsageError, match="the stored state has the arrays c: expected c, h, as the network of this cell has them"):
        model.apply(other, XS)


@pytest.mark.parametrize("reads", ["last", "all"])
@pytest.mark.parametrize(
    "config",
    [
        ModelConfig("gru", SIZE, rank=RANK),
        ModelConfig("lstm", SIZE, rank=RANK, layers=2),
        ModelConfig("lstm", SIZE, rank=RANK, trainable_initial_state=False),
        ModelConfig("gru", SIZE, rank=RANK, parametrization="adapter"),
        VariableConfig("vcgru", SIZE, rank=RANK, embedding=SIZE),
    ],
    ids=lambda config: config.label,
)
def test_a_sequence_from_the_initial_state_given_by_hand_equals_one_without_it(config, reads):
    model, variables = model_and_params(config, reads)
    for precision in ("float32", "bfloat16"):
        cast, xs = jax.tree.map(lambda a, to=precision: jnp.asarray(a, to), (variables, XS))
        carry = model.apply(cast, BATCH, method="initial_carry")
        predictions, after = model.apply(cast, xs, method="advance")
        assert jax.tree.map(lambda h: (h.shape, h.dtype), carry) == jax.tree.map(lambda h: (h.shape, h.dtype), after)
        assert_equal(model.apply(cast, xs, None, Start(carry), method="advance"), (predictions, after))
        assert jax.tree.leaves(carry)[0].dtype == precision


def test_the_initial_state_begins_a_scan_over_windows():
    model, variables = model_and_params(ModelConfig("lstm", SIZE, rank=RANK))

    def window(carry, xs):
        predictions, carry = model.apply(variables, xs[:, None], None, Start(carry), method="advance")
        return carry, predictions

    _, predictions = jax.lax.scan(window, model.apply(variables, BATCH, method="initial_carry"), jnp.swapaxes(XS, 0, 1))
    assert_close(predictions[-1], model.apply(variables, XS))


def test_an_initial_state_for_no_number_of_rows_is_one_line():
    model, variables = model_and_params(LRD.config())
    for rows, given in (
        (0, "0"),
        (1.5, "1.5"),
        (True, "True"),
        ("2", "'2'"),
        (XS, rf"an array of shape \({BATCH}, {STEPS}, {INPUT_SIZE}\)"),
    ):
        with pytest.raises(UsageError, match=rf"rows is {given}: expected the number of sequences, an integer, 1 or more"):
            model.apply(variables, rows, method="initial_carry")
    with pytest.raises(UsageError, match="no collection 'params' of this network: give those that `init` of this model returned"):
        model.apply(variables["params"], BATCH, method="initial_carry")


@pytest.mark.parametrize("pack", ["always", "never"])
def test_predictions_at_steps_that_count_do_not_depend_on_padding_and_packing(pack):
    """Those at other steps have no meaning, and nothing is tested of them."""
    model, variables = model_and_params(LRD.config(pack=pack), reads="all")
    found = jax.jit(model.apply)(variables, jnp.where(MASK[..., None], XS, jnp.nan), MASK)
    alone = jax.jit(model.apply)(variables, XS)
    for row, length in enumerate(MASK.sum(axis=1).tolist()):
        assert_close(found[row, :length], alone[row, :length])

    @jax.jit
    @jax.grad
    def gradient(variables, xs):
        return jnp.sum(jnp.sin(model.apply(variables, xs, MASK)), where=MASK[..., None])

    assert_close(gradient(variables, jnp.where(MASK[..., None], XS, jnp.nan)), gradient(variables, XS))


@pytest.mark.parametrize("sizes", [("3", 2), (3, None), (2.5, 2)])
def test_widths_that_are_no_integers_are_one_line(sizes):
    with pytest.raises(UsageError, match=r"(input|output)_size is .*: expected an integer"):
        LRD.config().build(*sizes, "last").init(jax.random.key(0), XS)


@pytest.mark.parametrize("width", [0, "3", 2.0, True])
def test_sizes_of_a_network_are_checked_when_it_is_built(width):
    for sizes in ((width, 2), (2, width)):
        with pytest.raises(UsageError, match=r"(input|output)_size is .*: expected an integer, 1 or more"):
            ModelConfig("gru", 3, parametrization="dense").build(*sizes, "last")


def test_variables_of_another_cell_are_one_line():
    inputs = jnp.zeros((2, 4, 3))
    models = [ModelConfig(cell, 5, parametrization="dense").build(3, 2, "last") for cell in ("gru", "elman")]
    variables = models[1].init(jax.random.key(0), inputs)
    with pytest.raises(UsageError, match="the variables do not fit them: give inputs of the width"):
        models[0].apply(variables, inputs)


@pytest.mark.parametrize(
    ("output", "says"), [(lambda h: h[0], r"\(5,\): expected \(2, 5\)"), (lambda h: jnp.tile(h, 2), r"\(2, 10\): expected \(2, 5\)")]
)
def test_outputs_of_another_shape_than_the_cell_says(output, says, monkeypatch):
    def step(params, carry, x):
        carry, (y, info) = CELLS["elman"].step(params, carry, x)
        return carry, (output(y), info)

    monkeypatch.setitem(CELLS, "mine", replace(CELLS["elman"], step=step))
    model = ModelConfig("mine", 5, parametrization="dense").build(3, 2, "all")
    with pytest.raises(UsageError, match=f"the step has an output of shape {says}.*a cell of your own says how wide"):
        model.init(jax.random.key(0), jnp.zeros((2, 4, 3)))


def test_parts_over_time_have_the_types_of_the_network():
    """The state has the type of the products of parameters and inputs."""
    xs = jnp.ones((4, 2, 3))
    network = recurrent_of(ModelConfig("gru", 5, parametrization="dense"), 3)
    variables = jax.tree.map(lambda a: a.astype(jnp.bfloat16), network.init(jax.random.key(0), xs))
    carry, _ = recur(*over_time(network, {name: {"recurrent": tree} for name, tree in variables.items()}, xs))
    assert carry.dtype == network.apply(variables, xs)[0].dtype == jnp.float32
