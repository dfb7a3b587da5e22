"""Dropout: what masks are made of, where they act, and that they are the same at every step and absent in evaluation."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from table import BATCH, INPUT_SIZE, PLAIN_ROWS, RANK, SIZE, STEPS, assert_close, network

from lrpt.cells import CELLS, Cell
from lrpt.cells.cell import Gate, StateGate
from lrpt.errors import UsageError
from lrpt.networks import recurrent
from lrpt.networks.dropout import Masked, biases_with_inputs, draw_mask, draw_word_weights, mask_role
from lrpt.networks.sequence_model import ModelConfig, SequenceModel
from lrpt.recurrence import recur
from lrpt.specs import MatrixSpec
from lrpt.symbols import Weighted

SYMBOLS = np.random.default_rng(0).integers(0, INPUT_SIZE, (BATCH, STEPS))
VECTORS = np.random.default_rng(1).standard_normal((BATCH, STEPS, INPUT_SIZE)).astype(np.float32)


def build(**config):
    return SequenceModel(ModelConfig(**{"size": SIZE, "rank": RANK, "recurrence": "plain", **config}), INPUT_SIZE, INPUT_SIZE, "all")


def outputs(model, inputs, train=True, key=3):
    variables = model.init(jax.random.key(0), inputs)
    return model.apply(variables, inputs, train=train, rngs={"dropout": jax.random.key(key)})


def test_a_mask_keeps_its_share_and_the_mean():
    mask = np.asarray(draw_mask(jax.random.key(0), 0.25, (200, 200)))
    assert set(np.unique(mask)) == {0, np.float32(1 / 0.75)}
    assert mask.mean() == pytest.approx(1, abs=0.02)


def test_word_masks_by_type_drop_a_symbol_everywhere_in_a_row_or_nowhere():
    symbols = jnp.asarray(np.random.default_rng(2).integers(0, 5, (40, 3)))
    weights = np.asarray(draw_word_weights(jax.random.key(1), 0.5, "types", symbols, 5))
    of_type = [{(int(s), float(w)) for s, w in zip(symbols[:, row], weights[:, row], strict=True)} for row in range(3)]
    assert all(len(pairs) == len({symbol for symbol, _ in pairs}) for pairs in of_type)
    assert len(set(map(frozenset, of_type))) > 1, "rows draw for themselves"
    each = np.asarray(draw_word_weights(jax.random.key(1), 0.5, "positions", symbols, 5))
    assert any(len(set(each[np.asarray(symbols[:, 0]) == s, 0])) == 2 for s in range(5))


def test_a_symbol_that_is_not_of_the_vocabulary_has_no_weight():
    weights = draw_word_weights(jax.random.key(0), 0.0, "types", jnp.asarray([[0, 5], [7, 4]]), 5)
    np.testing.assert_array_equal(weights, [[1, 0], [0, 1]])


@pytest.mark.slow
@pytest.mark.parametrize("row", PLAIN_ROWS, ids=str)
def test_masked_matrices_are_the_matrices_of_a_masked_state(row):
    """Each recurrent matrix with a mask m is diag(m) W as a dense matrix, at every step the same."""
    net = network(row)
    if not net.cell.has_recurrent_matrices:
        pytest.skip("no recurrent matrices")
    drawn = {}

    def mask(key, width):
        return drawn.setdefault(key, draw_mask(jax.random.key(len(drawn)), 0.4, (BATCH, width)))

    masked = mask_role(net.template, net.params, "recurrent", mask, "each", net.cell.deep)
    dense = net.dense()
    one = 2

    def scaled(path, spec, op):
        if getattr(spec, "role", "") != "recurrent":
            return op
        names = [str(getattr(k, "name", getattr(k, "idx", k))) for k in path]
        names = names[:-1] if names[-1] == "recurrent" else names
        key = (*(names[:-2] if net.cell.deep else names[:-1]), names[-1])
        return type(op)(drawn[key][one][:, None] * op.kernel)

    leaves, treedef = jax.tree_util.tree_flatten_with_path(net.template)
    expected = treedef.unflatten(scaled(p, s, op) for (p, s), op in zip(leaves, treedef.flatten_up_to(dense.params), strict=True))
    step = jax.jit(net.cell.step)
    carry, alone = net.carry, jax.tree.map(lambda h: h[one : one + 1], net.carry)
    for x in net.xs[:3]:
        carry, (y, _) = step(masked, carry, x)
        alone, (y_alone, _) = step(expected, alone, x[one : one + 1])
        assert_close(y[one : one + 1], y_alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("gate_masks", "cell", "count"),
    [
        ("each", "gru", 3),
        ("candidate_apart", "gru", 2),
        ("shared", "gru", 1),
        ("each", "lstm", 4),
        ("candidate_apart", "lru", 2),
        ("each", "rhn", 2),
        ("shared", "rhn", 1),
    ],
)
def test_which_gates_share_masks(gate_masks, cell, count):
    """Transitions inside a step share them, too."""
    keys = set()

    def mask(key, width):
        keys.add(key)
        return jnp.ones((BATCH, width))

    row = next(row for row in PLAIN_ROWS if row.cell == cell)
    net = network(row)
    mask_role(net.template, net.params, "recurrent", mask, gate_masks, CELLS[cell].deep)
    assert len(keys) == count


@pytest.fixture
def masks(monkeypatch):
    """The masks that networks draw, in the order of their parameters."""
    seen = []

    def watched(step, params, *rest, **more):
        leaves = jax.tree.leaves(params, is_leaf=lambda node: isinstance(node, Masked))
        seen.extend(np.asarray(leaf.mask) for leaf in leaves if isinstance(leaf, Masked))
        return recur(step, params, *rest, **more)

    monkeypatch.setattr(recurrent, "recur", watched)
    return seen


@pytest.mark.parametrize(("gate_masks", "count"), [("each", 3), ("candidate_apart", 2), ("shared", 1)])
def test_gates_that_share_masks_have_the_same_one_in_training(gate_masks, count, masks):
    outputs(build(state_dropout=0.5, gate_masks=gate_masks), VECTORS)
    assert (len(masks), len({mask.tobytes() for mask in masks})) == (3, count)


def test_inputs_and_states_of_one_width_have_masks_and_shares_of_their_own(masks):
    outputs(build(embedding=SIZE, input_dropout=0.5, state_dropout=0.25), SYMBOLS)
    drawn = {mask.tobytes(): set(np.unique(mask)) for mask in masks}
    assert len(drawn) == 6
    assert sorted(map(max, drawn.values())) == [np.float32(1 / 0.75)] * 3 + [2] * 3
    assert all(min(values) == 0 for values in drawn.values())


@pytest.mark.parametrize("dropout", ["input_dropout", "state_dropout"])
@pytest.mark.parametrize("kind", ["dict", "list"])
def test_masks_are_for_templates_of_any_containers(kind, dropout, masks, tables):
    def template(spec):
        specs = {"a": MatrixSpec(spec.input_size, spec.size, "input"), "u": MatrixSpec(spec.size, spec.size, "recurrent")}
        return specs if kind == "dict" else [*specs.values()]

    def step(params, h, x):
        a, u = params if isinstance(params, list) else (params["a"], params["u"])
        h = jnp.tanh(a.apply(x) + u.apply(h))
        return h, (h, ())

    CELLS["mine"] = Cell(step, template)
    assert np.all(np.isfinite(outputs(build(cell="mine", parametrization="dense", **{dropout: 0.5}), VECTORS)))
    assert [mask.shape for mask in masks] == [(BATCH, INPUT_SIZE if dropout == "input_dropout" else SIZE)]


@pytest.mark.parametrize("middle", [1, 2])
@pytest.mark.parametrize(("gate_masks", "count"), [("each", 3), ("candidate_apart", 2), ("shared", 2)])
def test_matrices_of_several_widths_have_a_mask_of_each_width(middle, gate_masks, count, masks, tables):
    def template(spec):
        matrices = {"down": (spec.size, middle), "up": (middle, spec.size), "whole": (spec.size, spec.size)}
        return {"a": MatrixSpec(spec.input_size, spec.size, "input")} | {
            name: MatrixSpec(*shape, "recurrent") for name, shape in matrices.items()
        }

    def step(params, h, x):
        h = jnp.tanh(params["a"].apply(x) + params["up"].apply(params["down"].apply(h)) + params["whole"].apply(h))
        return h, (h, ())

    CELLS["mine"] = Cell(step, template)
    outputs(build(cell="mine", parametrization="dense", state_dropout=0.5, gate_masks=gate_masks), VECTORS)
    assert [mask.shape for mask in masks] == [(BATCH, SIZE), (BATCH, middle), (BATCH, SIZE)]
    assert len({(mask.shape, mask.tobytes()) for mask in masks}) == count


def test_masks_do_not_rely_on_implicit_promotion():
    with jax.numpy_dtype_promotion("strict"):
        mask = draw_mask(jax.random.key(0), 0.5, (4,))
    assert (mask.dtype, set(mask.tolist()) <= {0.0, 2.0}) == (jnp.float32, True)


REFUSED = {
    "an embedding": ({"word_dropout": 0.1, "embedding": 4}, SYMBOLS),
    "vectors": ({"word_dropout": 0.1}, VECTORS),
    "biases apart": ({"word_dropout": 0.1, "cell": "gru_cudnn"}, SYMBOLS),
}


@pytest.mark.parametrize("case", REFUSED)
def test_biases_that_cannot_go_with_a_dropped_symbol_are_refused(case):
    changes, inputs = REFUSED[case]
    with pytest.raises(UsageError, match=r"model\.dropout\.biases is True"):
        outputs(build(drop_biases=True, **changes), inputs)


def test_biases_of_gates_that_see_no_symbol_stay():
    """Those of a first transition go with the symbol, those of the next, which read the state alone, are the same objects as before."""
    outputs(build(drop_biases=True, word_dropout=0.5, cell="rhn", depth=2), SYMBOLS)
    params = network(next(row for row in PLAIN_ROWS if row.cell == "rhn")).params
    before, after = gates(params), gates(biases_with_inputs(params))
    assert {type(gate) for gate in before} == {Gate, StateGate}
    for old, new in zip(before, after, strict=True):
        assert (new is old) == isinstance(old, StateGate)
        assert isinstance(old, StateGate) or not np.any(jax.tree.leaves(new.bias)[0])


def gates(params):
    """Every affine function of a cell, in the order of its parameters."""
    kinds = Gate, StateGate
    return [leaf for leaf in jax.tree.leaves(params, is_leaf=lambda node: isinstance(node, kinds)) if isinstance(leaf, kinds)]


def test_biases_can_go_with_a_dropped_symbol():
    """dl4mt-lm: a weight w gives w (W[c] + b) + h U."""
    row = next(row for row in PLAIN_ROWS if row.cell == "gru_reset_after")
    net = network(row)
    x = jnp.asarray(SYMBOLS[:, 0])
    gate = biases_with_inputs(net.params).update
    w = jnp.asarray([0.0, 1.0, 2.0, 0.5])
    plain = net.params.update
    expected = w[:, None] * (plain.input.apply(x) + plain.bias.apply(net.carry)) + plain.recurrent.apply(net.carry)
    actual = gate(Weighted(x, w), net.carry)
    assert_close(actual, expected)


EVERYTHING = {"word_dropout": 0.3, "state_dropout": 0.5, "output_dropout": 0.5}
CASES = {
    "symbols": ({**EVERYTHING}, SYMBOLS),
    "symbols_with_biases": ({**EVERYTHING, "cell": "gru_reset_after", "drop_biases": True, "gate_masks": "shared"}, SYMBOLS),
    "embedding": ({**EVERYTHING, "input_dropout": 0.5, "embedding": 4, "word_masks": "types"}, SYMBOLS),
    "vectors": ({**EVERYTHING, "input_dropout": 0.5}, VECTORS),
    "rhn": ({**EVERYTHING, "cell": "rhn", "depth": 2}, VECTORS),
}
every_case = pytest.mark.parametrize("case", CASES)


@every_case
def test_nothing_is_dropped_in_evaluation(case):
    config, inputs = CASES[case]
    none = dict.fromkeys(("word_dropout", "state_dropout", "output_dropout", "input_dropout"), 0.0)
    assert_close(outputs(build(**config), inputs, train=False), outputs(build(**{**config, **none}), inputs, train=True))
    assert np.abs(np.asarray(outputs(build(**config), inputs) - outputs(build(**config), inputs, train=False))).max() > 1e-3


@pytest.mark.slow
@every_case
def test_fast_and_plain_loop_agree_with_dropout(case):
    config, inputs = CASES[case]

    def value_and_gradient(recurrence):
        model = build(**config, recurrence=recurrence, chunk=4)
        variables = model.init(jax.random.key(0), inputs)

        def loss(variables):
            out = model.apply(variables, inputs, train=True, rngs={"dropout": jax.random.key(5)})
            return jnp.sum(out * jnp.cos(jnp.arange(out.size).reshape(out.shape)))

        return jax.jit(jax.value_and_grad(loss))(variables)

    assert_close(value_and_gradient("fast"), value_and_gradient("plain"), rtol=1e-5, atol=1e-6)


def test_the_same_key_gives_the_same_masks():
    config, inputs = CASES["symbols"]
    model = build(**config)
    np.testing.assert_array_equal(outputs(model, inputs, key=1), outputs(model, inputs, key=1))
    assert np.abs(np.asarray(outputs(model, inputs, key=1) - outputs(model, inputs, key=2))).max() > 1e-3


def test_the_passthrough_is_never_masked():
    """With every matrix at zero and the carry gate half open, the state halves at each step, whatever is dropped."""
    model = build(**CASES["symbols"][0], carry_bias=0.0)
    variables = jax.tree.map(jnp.zeros_like, model.init(jax.random.key(0), SYMBOLS))
    variables["params"]["recurrent"]["initial_state"] = jnp.ones(SIZE)
    _, last = model.apply(variables, SYMBOLS, train=True, rngs={"dropout": jax.random.key(0)}, method="advance")
    assert_close(last, np.full((BATCH, SIZE), 0.5**STEPS))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"state_dropout": 1.0}, "model.dropout.states is 1.0: expected a share from 0 to below 1"),
        ({"gate_masks": "some"}, "model.dropout.gate_masks is 'some'"),
        ({"cell": "unitary", "state_dropout": 0.5}, "unitary has no matrices it could act on"),
        ({"recurrence": "kernel", "output_dropout": 0.5}, "which has no dropout"),
        ({"tie_embedding": True}, "there is no embedding"),
        ({"embedding": 0}, "model.embeddings.width is 0: expected 1 or more"),
    ],
)
def test_bad_settings(changes, message):
    with pytest.raises(UsageError, match=message):
        ModelConfig(**changes)


@pytest.mark.parametrize(
    ("changes", "inputs", "message"),
    [
        ({"word_masks": "types", "word_dropout": 0.1}, VECTORS, "the inputs of this task are vectors: choose positions"),
        ({"input_dropout": 0.5}, SYMBOLS, "give symbols vectors with --model.embedding"),
        ({"embedding": 3, "tie_embedding": True}, SYMBOLS, f"3 against {SIZE}"),
    ],
)
def test_settings_that_do_not_fit_the_task(changes, inputs, message):
    with pytest.raises(UsageError, match=message):
        jax.eval_shape(partial(build(**changes).init, train=True), {name: jax.random.key(0) for name in ("params", "dropout")}, inputs)


def test_a_tied_embedding_is_the_readout():
    model = build(embedding=SIZE, tie_embedding=True, embedding_rank=2)
    variables = model.init(jax.random.key(0), SYMBOLS)
    table = variables["params"]["embedding"]["table"] @ variables["params"]["embedding"]["spread"]
    assert "readout" not in variables["params"]
    untied = build(embedding=SIZE)
    params = {"recurrent": variables["params"]["recurrent"], "embedding": {"table": table}}
    params["readout"] = {"kernel": table.T, "bias": variables["params"]["readout_bias"]}
    assert_close(model.apply(variables, SYMBOLS), untied.apply({"params": params}, SYMBOLS))


@pytest.mark.parametrize(
    ("inputs", "config"),
    [
        (VECTORS, {"input_dropout": 0.3, "state_dropout": 0.3, "output_dropout": 0.3, "word_dropout": 0.3}),
        (SYMBOLS, {"word_dropout": 0.3, "drop_biases": True}),
        (SYMBOLS, {"word_dropout": 0.3, "input_parametrization": "low_rank"}),
        (SYMBOLS, {"word_dropout": 0.3, "word_masks": "types", "embedding": 3, "input_dropout": 0.3}),
    ],
    ids=["vectors", "biases", "low rank", "embedding"],
)
def test_masks_do_not_widen_a_network_of_bfloat16_parameters(inputs, config):
    """Masks are drawn in single precision. Training and evaluation compute in one type, so that states can be handed on."""
    model = build(**config)
    inputs = jnp.asarray(inputs, None if inputs is SYMBOLS else jnp.bfloat16)
    low = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), model.init(jax.random.key(0), inputs))
    found = model.apply(low, inputs, None, train=True, rngs={"dropout": jax.random.key(1)}, method="advance")
    assert {leaf.dtype for leaf in jax.tree.leaves(found)} == {jnp.dtype("bfloat16")}


@pytest.mark.parametrize("name", ["input_dropout", "state_dropout", "output_dropout"])
def test_rows_have_masks_of_their_own(name):
    xs = np.broadcast_to(VECTORS[:1], (6, *VECTORS.shape[1:]))
    rows = np.asarray(outputs(build(size=16, parametrization="dense", **{name: 0.5}), xs))[:, -1]
    assert len(np.unique(rows.round(5), axis=0)) == 6


def test_dropped_words_lose_their_embedding_and_the_others_are_scaled():
    model = ModelConfig("gru", 4, rank=1, embedding=3, word_dropout=0.5).build(9, 9, "all")
    xs = jnp.arange(40).reshape(8, 5) % 9
    variables = model.init(jax.random.key(0), xs)
    usual = model.apply(variables, xs, False, method=lambda model, *given: model._inputs(*given))
    found = model.apply(variables, xs, True, method=lambda model, *given: model._inputs(*given), rngs={"dropout": jax.random.key(1)})
    factors = np.asarray(found / usual)
    np.testing.assert_allclose(factors, np.where(factors[..., :1] > 1, 2.0, 0.0) * np.ones(3), rtol=1e-5)
    assert 0 < (factors > 1).mean() < 1
