"""Tests of tables to which users add entries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lrpt.cells import CELLS, Cell
from lrpt.cells.highway import ACTIVATIONS
from lrpt.errors import UsageError
from lrpt.networks.sequence_model import ModelConfig
from lrpt.optim import RECIPES
from lrpt.parametrizations import PARAMETRIZATIONS
from lrpt.parametrizations.initialization import INITIALIZATIONS
from lrpt.recurrence import LOOPS
from lrpt.specs import MatrixSpec
from lrpt.tables import Table


def scaled(factor):
    """Return an Elman cell whose state is multiplied by a factor."""

    def step(params, h, x):
        h = factor * jnp.tanh(params["a"].apply(x) + params["u"].apply(h))
        return h, (h, ())

    def template(spec):
        return {"a": MatrixSpec(spec.input_size, spec.size, "input"), "u": MatrixSpec(spec.size, spec.size, "recurrent")}

    return Cell(step, template)


def test_a_compiled_function_runs_the_cell_that_is_registered_now(tables):
    """Modules of the old and the new cell are equal, as they hold the name only."""
    run = jax.jit(lambda model, variables, x: model.apply(variables, x), static_argnums=0)
    x = jnp.linspace(-1, 1, 12).reshape(1, 4, 3)
    for factor in (1.0, -3.0):
        CELLS["mine"] = scaled(factor)
        model = ModelConfig("mine", 4, parametrization="dense").build(3, 2, "last")
        variables = model.init(jax.random.key(0), x)
        np.testing.assert_allclose(run(model, variables, x), model.apply(variables, x), rtol=1e-5)


@pytest.mark.parametrize(("entry", "cleared"), [("other", 1), ("same", 0), ("new", 0)])
def test_caches_are_cleared_only_for_another_entry_of_a_known_name(entry, cleared, monkeypatch):
    calls = []
    monkeypatch.setattr(jax, "clear_caches", lambda: calls.append(1))
    table = Table({"known": "same"})
    table["unknown" if entry == "new" else "known"] = entry
    assert len(calls) == cleared


def test_a_name_that_is_not_in_a_table_is_one_line_and_still_a_key_error():
    with pytest.raises(KeyError) as caught:
        CELLS["GRUU"]
    assert isinstance(caught.value, UsageError)
    assert str(caught.value).startswith("the name is 'GRUU': choose from gru, ")
    assert CELLS.get("GRUU") is None
    assert "GRUU" not in CELLS
    assert CELLS.pop("GRUU", 1) == 1


WAYS = {
    "setitem": lambda table, entry: table.__setitem__("known", entry),
    "update": lambda table, entry: table.update(known=entry),
    "or": lambda table, entry: table.__ior__({"known": entry}),
    "del": lambda table, entry: (table.__delitem__("known"), table.setdefault("known", entry)),
    "pop": lambda table, entry: (table.pop("known"), table.update(known=entry)),
    "clear": lambda table, entry: (table.clear(), table.update(known=entry)),
}


@pytest.mark.parametrize("way", WAYS)
def test_caches_are_cleared_in_every_way_of_replacing_an_entry(way, monkeypatch):
    calls = []
    monkeypatch.setattr(jax, "clear_caches", lambda: calls.append(1))
    table = Table({"known": "same"})
    WAYS[way](table, "other")
    assert (type(table), dict(table), len(calls)) == (Table, {"known": "other"}, 1)


def test_a_compiled_network_runs_the_loop_that_is_registered_now(monkeypatch):
    run = jax.jit(lambda model, variables, x: model.apply(variables, x), static_argnums=0)
    x = jnp.linspace(-1, 1, 12).reshape(1, 4, 3)
    model = ModelConfig("gru", 4, parametrization="dense").build(3, 2, "last")
    variables = model.init(jax.random.key(0), x)
    usual = run(model, variables, x)
    monkeypatch.setitem(LOOPS, "fast", lambda step, params, carry, xs, tuning: (jax.tree.map(jnp.zeros_like, carry), None))
    np.testing.assert_array_equal(run(model, variables, x), jnp.zeros_like(usual))
    monkeypatch.undo()
    np.testing.assert_array_equal(run(model, variables, x), usual)


@pytest.mark.parametrize("table", [CELLS, PARAMETRIZATIONS, LOOPS, ACTIVATIONS, INITIALIZATIONS, RECIPES])
def test_all_tables_whose_names_a_configuration_holds_are_such_tables(table):
    assert isinstance(table, Table)
