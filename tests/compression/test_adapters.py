"""Networks with adapters: the start, what is trained, the merge, and vocabularies."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from table import Row, assert_close

from lrpt.compression.adapters import adapted, adapter_config, full_config, in_full, merged, with_symbols
from lrpt.errors import UsageError
from lrpt.networks.protocol import Start
from lrpt.networks.recurrent import Recurrent, cell_params
from lrpt.networks.sequence_model import ModelConfig
from lrpt.parametrizations import FROZEN
from lrpt.recurrence import deferred

SYMBOLS, SIZE = 5, 6
XS = jnp.asarray(np.random.default_rng(0).integers(0, SYMBOLS, (2, 7)))


def drawn(config, symbols=SYMBOLS, seed=0):
    model = config.build(symbols, symbols, "all")
    shapes = jax.eval_shape(model.init, jax.random.key(0), XS)
    rng = np.random.default_rng(seed)
    return model, jax.tree.map(lambda a: (0.5 * rng.standard_normal(a.shape)).astype(np.float32), shapes)


def with_adapters(row, diagonal=False):
    """(the trained model and its variables, the model with adapters and its variables at the start)."""
    config = row.config()
    model, variables = drawn(config)
    trained = in_full(variables["params"]["recurrent"], Recurrent(config, SYMBOLS))
    new = adapter_config(config, 2, diagonal)
    other = new.build(SYMBOLS, SYMBOLS, "all")
    start = adapted(trained, jax.jit(other.init)(jax.random.key(1), XS))
    readout = {name: tree for name, tree in variables["params"].items() if name != "recurrent"}
    return (model, variables), (other, jax.tree.map(jnp.asarray, {**start, "params": {**start["params"], **readout}}))


@pytest.mark.slow
@pytest.mark.parametrize("row", [Row("gru", "low_rank", tied=True, weight_norm=True), Row("rhn", "monarch")], ids=str)
def test_adapters_start_where_the_trained_network_is(row):
    (model, variables), (other, start) = with_adapters(row, diagonal=True)
    assert_close(jax.jit(other.apply)(start, XS), jax.jit(model.apply)(variables, XS), atol=1e-5)


def test_all_parameters_of_a_model_begin_a_network_with_adapters():
    """Those of the embedding and of the readout, too, which `adapted` draws if it gets the recurrent part alone."""
    row = Row("gru", "low_rank")
    config = row.config(embedding=4)
    model, variables = drawn(config)
    whole = in_full(variables["params"], Recurrent(config, 4))
    new = adapter_config(config, 2, diagonal=True)
    other = new.build(SYMBOLS, SYMBOLS, "all")
    initial = jax.jit(other.init)(jax.random.key(1), XS)
    start = adapted(whole, initial)
    assert jax.tree.map(jnp.shape, start) == jax.tree.map(jnp.shape, initial)
    assert_close(jax.jit(other.apply)(start, XS), jax.jit(model.apply)(variables, XS), atol=1e-5)
    again = in_full(start["params"], Recurrent(new, 4), start[FROZEN])
    assert_close(again, merged(start, Recurrent(new, 4))["params"], 0, 0)
    assert_close(again, whole, atol=1e-6)
    assert {array.dtype for array in jax.tree.leaves(whole)} == {np.dtype(np.float32)}


def test_parameters_that_cannot_be_adapted_are_one_line():
    config = Row("gru", "low_rank").config()
    _, variables = drawn(config)
    with pytest.raises(
        UsageError, match=r"the matrix 'candidate' is stored as left, right, and only dense ones can be frozen: give in_full"
    ):
        adapted(variables["params"], variables)
    with pytest.raises(UsageError, match=r"initial has no collection 'frozen': give variables of a network with .* adapter_config"):
        adapted(in_full(variables["params"], Recurrent(config, SYMBOLS)), variables)
    for call in (lambda: adapted(variables, variables), lambda: in_full(variables, Recurrent(config, SYMBOLS))):
        with pytest.raises(UsageError, match="params have params, and neither 'recurrent' nor 'cell': give the parameters of a Seq"):
            call()


def test_the_merge_changes_nothing_but_rounding_and_has_no_collection_of_its_own():
    _, (other, start) = with_adapters(Row("gru", "dense"), diagonal=True)
    rng = np.random.default_rng(3)
    moved = {**start, "params": jax.tree.map(lambda a: a + 0.3 * rng.standard_normal(a.shape).astype(np.float32), start["params"])}
    variables, config = merged(moved, Recurrent(other.config, SYMBOLS)), full_config(other.config)
    assert set(variables) == {"params"}
    assert config.matrices.kind == "dense"
    whole = config.build(SYMBOLS, SYMBOLS, "all")
    assert_close(jax.jit(whole.apply)(variables, XS), jax.jit(other.apply)(moved, XS), atol=1e-5)


def test_the_initial_state_has_the_type_of_frozen_matrices_too():
    """Trained parameters may be of half precision, and products with frozen matrices are not."""
    _, (other, start) = with_adapters(Row("gru", "dense"))
    mixed = {**start, "params": jax.tree.map(lambda a: a.astype(jnp.bfloat16), start["params"])}
    carry = other.apply(mixed, len(XS), method="initial_carry")
    assert carry.dtype == jnp.float32
    last, own = (jax.eval_shape(partial(other.apply, method="advance"), mixed, XS, None, at)[1] for at in (Start(carry), None))
    assert last.dtype == own.dtype == jnp.float32


def test_the_configuration_of_full_matrices_has_nothing_of_the_storage_before():
    config = ModelConfig("gru", 8, rank=2, tied=True, weight_norm=True, input_parametrization="low_rank", input_rank=2, input_tied=True)
    before, after = (Recurrent(kind, SYMBOLS) for kind in (config, full_config(config)))
    shapes, expected = (jax.eval_shape(network.init, jax.random.key(0), XS.T)["params"] for network in (before, after))
    found = in_full(jax.tree.map(lambda leaf: jnp.ones(leaf.shape), shapes), before)
    assert jax.tree.map(jnp.shape, found) == jax.tree.map(jnp.shape, expected)


def test_the_merged_matrix_is_the_sum_in_float64():
    _, (other, start) = with_adapters(Row("gru", "dense"), diagonal=True)
    factors = {"left": np.ones((2, SIZE)), "right": np.full((2, SIZE), 0.25), "diagonal": np.arange(SIZE, dtype=float)}
    start["params"]["recurrent"]["cell"]["recurrent"]["update"] = {name: a.astype(np.float32) for name, a in factors.items()}
    variables = merged(start, Recurrent(other.config, SYMBOLS))
    frozen = np.asarray(start[FROZEN]["recurrent"]["cell"]["recurrent"]["update"]["kernel"], np.float64)
    kernel = variables["params"]["recurrent"]["cell"]["recurrent"]["update"]["kernel"]
    np.testing.assert_allclose(kernel, frozen + 0.5 + np.diag(factors["diagonal"]), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["fast", "plain"])
def test_loops_agree_and_form_no_gradient_of_what_is_frozen(loop, monkeypatch):
    """The fast loop adds up the gradients of exactly the arrays that are asked for."""
    _, (other, start) = with_adapters(Row("gru", "dense"))
    seen = []

    class Spied(deferred.LinearStep):
        def zeros(self):
            found = super().zeros()
            seen.append({array.shape for array in found[0].values()})
            return found

    monkeypatch.setattr(deferred, "LinearStep", Spied)

    def loss(params, loop):
        model = other.clone(config=ModelConfig(**{**vars(other.config), "loop": type(other.config.loop)(kind=loop, materialize="never")}))
        return jnp.sin(model.apply({**start, "params": params}, XS)).sum()

    gradient = jax.jit(jax.grad(partial(loss, loop=loop)))(start["params"])
    if loop == "fast":
        assert seen
        assert all((SIZE, SIZE) not in shapes and (2, SIZE) in shapes for shapes in seen)
    assert_close(gradient, jax.jit(jax.grad(partial(loss, loop="plain")))(start["params"]), atol=1e-5)
    assert set(gradient["recurrent"]["cell"]["recurrent"]["update"]) == {"left", "right"}


def test_symbols_keep_what_belongs_to_them():
    config = ModelConfig(size=SIZE, parametrization="dense")
    (_, trained), (_, initial) = drawn(config), drawn(config, symbols=4, seed=8)
    found = with_symbols(trained["params"], initial["params"], Recurrent(config, SYMBOLS), "\nuabc", "\nucx")
    for tree, own, new, axis in (
        (found["recurrent"]["cell"]["input"]["reset"], trained["params"]["recurrent"]["cell"]["input"]["reset"], None, 0),
        (found["readout"], trained["params"]["readout"], initial["params"]["readout"], 1),
    ):
        drawn_now = initial["params"]["recurrent"]["cell"]["input"]["reset"] if new is None else new
        rows = np.moveaxis(np.asarray(tree["kernel"]), axis, 0)
        np.testing.assert_array_equal(rows[:3], np.moveaxis(np.asarray(own["kernel"]), axis, 0)[[0, 1, 4]])
        np.testing.assert_array_equal(rows[3], np.moveaxis(np.asarray(drawn_now["kernel"]), axis, 0)[3])
    np.testing.assert_array_equal(found["readout"]["bias"][:3], trained["params"]["readout"]["bias"][np.array([0, 1, 4])])


@pytest.mark.parametrize("changes", [{}, {"layers": 2}, {"embedding": SIZE, "tie_embedding": True}], ids=str)
def test_the_predictions_for_a_text_do_not_depend_on_the_order_of_the_symbols(changes):
    config = ModelConfig(size=SIZE, parametrization="dense", **changes)
    (model, trained), (_, initial) = drawn(config), drawn(config, seed=8)
    found = with_symbols(trained["params"], initial["params"], Recurrent(config, SYMBOLS), "abcde", "edcba")
    expected = jax.jit(model.apply)(trained, XS)[..., ::-1]
    assert_close(jax.jit(model.apply)({"params": found}, SYMBOLS - 1 - XS), expected, atol=1e-6)


def test_symbols_of_input_matrices_that_layers_share_are_refused():
    config = ModelConfig(size=SYMBOLS, layers=2, shared_layers=True, parametrization="dense")
    (_, trained), (_, initial) = drawn(config), drawn(config, seed=8)
    with pytest.raises(UsageError, match=r"layers share input matrices.*with an embedding"):
        with_symbols(trained["params"], initial["params"], Recurrent(config, SYMBOLS), "abcde", "edcba")


def test_embeddings_move_with_their_symbols():
    config = ModelConfig(size=SIZE, parametrization="dense", embedding=3)
    (_, trained), (_, initial) = drawn(config), drawn(config, symbols=4, seed=8)
    before = jax.tree.map(np.copy, initial)
    found = with_symbols(trained["params"], initial["params"], Recurrent(config, 3), "\nuabc", "\nucx")
    assert_close(initial, before, 0, 0)
    np.testing.assert_array_equal(found["embedding"]["table"][:3], trained["params"]["embedding"]["table"][np.array([0, 1, 4])])
    np.testing.assert_array_equal(found["embedding"]["table"][3], initial["params"]["embedding"]["table"][3])


def test_the_parameters_of_a_cell_with_adapters_need_what_is_frozen():
    _, (other, start) = with_adapters(Row("gru", "dense"))
    with pytest.raises(UsageError, match="has adapters: merge them"):
        cell_params(start["params"]["recurrent"], Recurrent(other.config, SYMBOLS))
