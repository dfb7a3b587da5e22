"""Tests of what a cell says of itself without sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lrpt.cells import CELLS, Cell, cell_named
from lrpt.errors import UsageError
from lrpt.networks.sequence_model import ModelConfig
from lrpt.specs import MatrixSpec


@pytest.mark.parametrize("parts", [2, 3, 4, 8])
def test_a_template_may_divide_the_state_into_parts(parts, tables):
    """As attention heads or blocks do."""

    def template(spec):
        if spec.size % parts:
            raise ValueError(f"size {spec.size} is not divisible by {parts}")
        return {"a": MatrixSpec(spec.input_size, spec.size, "input"), "u": MatrixSpec(spec.size, spec.size, "recurrent")}

    def step(params, h, x):
        h = jnp.tanh(params["a"].apply(x) + params["u"].apply(h))
        return h, (h, ())

    CELLS["mine"] = Cell(step, template)
    config = ModelConfig("mine", 24, parametrization="dense", state_dropout=0.1)
    assert config.label == "MINE 24 dropout"
    assert (CELLS["mine"].roles, CELLS["mine"].has_carry_bias) == ({"input", "recurrent"}, False)
    x = jnp.ones((2, 3, 4))
    model = config.build(4, 2, "last")
    assert np.all(np.isfinite(model.apply(model.init(jax.random.key(0), x), x)))


def test_a_step_in_the_table_of_cells_is_one_line(monkeypatch):
    monkeypatch.setitem(CELLS, "mine", CELLS["gru"].step)
    with pytest.raises(UsageError, match=r"CELLS\['mine'\] is a function: wrap it in lrpt\.Cell\(step, template\)"):
        cell_named("mine")
