"""What a cell may ask for, by the example in the docstring of `lrpt.specs`."""

from collections import OrderedDict
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lrpt.specs
from lrpt import LOOPS, BiasSpec, Cell, CellSpec, Diagonal, MatrixConfig, MatrixSpec, OperatorSpec, SettingSpec, recur
from lrpt.errors import UsageError
from lrpt.matrices import Operator
from lrpt.parametrizations import Parameters
from lrpt.specs import paths_by_name

NAMES = {"NamedTuple": NamedTuple, "Operator": Operator, "Array": Any, "CellSpec": CellSpec, "Diagonal": Diagonal}
NAMES |= {"MatrixSpec": MatrixSpec, "BiasSpec": BiasSpec, "OperatorSpec": OperatorSpec, "SettingSpec": SettingSpec}


def example():
    """The code of the docstring, as it is printed."""
    lines = [line[4:] for line in str(lrpt.specs.__doc__).splitlines() if line.startswith("    ") or not line]
    found = dict(NAMES)
    exec("\n".join(lines), found)
    return found["template"]


def step(params, h, x):
    h = params.decay.apply(h) + jnp.tanh(params.temperature * (params.input.apply(x) + params.recurrent.apply(h) + params.bias.apply(h)))
    return h, (h, ())


def test_the_example_is_a_cell_that_runs_in_every_loop():
    cell, spec = Cell(step, example()), CellSpec(3, 5)
    module = Parameters(cell.template(spec), MatrixConfig("low_rank", 2), MatrixConfig())
    params, stored = module.init_with_output(jax.random.key(0))
    assert jax.tree.map(jnp.shape, stored["params"]) == {
        "input": {"input": {"kernel": (3, 5)}},
        "recurrent": {"recurrent": {"left": (2, 5), "right": (2, 5)}},
        "bias": {"bias": (5,)},
        "operator": {"decay": (5,)},
    }
    assert np.all(np.abs(params.decay.diagonal - 0.9) <= 0.05)
    assert params.temperature == 1.0
    symbols = jnp.asarray([[0, 2], [1, 1], [2, 0]])
    _, expected = recur(cell.step, params, jnp.zeros((2, 5)), symbols)
    for loop in LOOPS:
        np.testing.assert_allclose(recur(cell.step, params, jnp.zeros((2, 5)), symbols, loop=loop)[1], expected, rtol=1e-5)


def test_every_name_under_which_something_is_stored_has_its_path():
    cell = Cell(step, example())
    module = Parameters(cell.template(CellSpec(4, 5)), MatrixConfig("low_rank", 2, tied=True), MatrixConfig("low_rank", 2, tied=True))
    stored = module.init(jax.random.key(0))
    paths = paths_by_name(cell.template(CellSpec(4, 5)))
    assert {name for role in stored["params"].values() for name in role} <= paths.keys()


def test_operators_are_drawn_around_their_center():
    drawn = filled({"decay": OperatorSpec(Diagonal, (400,), initial=0.9, spread=0.05)})["operator"]["decay"]
    assert 0.85 <= drawn.min() < 0.86
    assert 0.94 < drawn.max() <= 0.95


def filled(template):
    return Parameters(template, MatrixConfig(), MatrixConfig()).init(jax.random.key(0))["params"]


def test_a_template_may_be_made_of_dictionaries():
    found = filled({"a": MatrixSpec(2, 3, "input"), "b": {"bias": BiasSpec(3)}})
    assert (found["input"].keys(), found["bias"].keys()) == ({"a"}, {"b"})


@pytest.mark.parametrize("kind", [dict, list, OrderedDict])
def test_a_step_gets_the_containers_of_its_template(kind):
    """Flax turns the containers among attributes of modules into others, which step functions may not expect."""
    specs = {"b": MatrixSpec(2, 3, "input"), "a": [BiasSpec(3), {"c": BiasSpec(4)}]}
    template = list(specs.values()) if kind is list else kind(specs)

    class Outer(nn.Module):
        @nn.compact
        def __call__(self):
            return Parameters(template, MatrixConfig(), MatrixConfig(), name="cell")()

    for module in (Outer(), Parameters(template, MatrixConfig(), MatrixConfig())):
        found, stored = module.init_with_output(jax.random.key(0))
        assert jax.tree.structure(template).flatten_up_to(found)
        assert jax.tree.structure(module.clone().apply(stored)) == jax.tree.structure(found)
        assert hash(module) == hash(module.clone())


def test_what_is_no_specification_is_one_line():
    with pytest.raises(UsageError, match="the role of a matrix is 'recurent': choose from recurrent, input"):
        MatrixSpec(2, 2, "recurent")
    with pytest.raises(UsageError, match="the leaf 3: give a MatrixSpec, BiasSpec, OperatorSpec or SettingSpec"):
        filled({"a": 3})


def test_two_leaves_of_one_name_are_refused():
    """They would silently share one parameter."""
    with pytest.raises(UsageError, match="2 leaves of a cell's template are stored as 'bias/a_b': rename"):
        filled({"a": {"b": BiasSpec(2)}, "a_b": BiasSpec(2)})
