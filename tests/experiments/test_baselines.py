"""The networks that the papers compare with take part in every task of section 3 (Miceli Barone 2018), by a flag."""

import jax
import jax.numpy as jnp
import pytest

from experiments import adding, char_lm, copy_memory, permuted_mnist
from lrpt.cli.flags import parse
from lrpt.training.step import init_state, train_step

BASELINES = {
    "elman": [],
    "lstm": ["--model.carry-bias", "1"],
    "projected_lstm": ["--model.cell", "lstm", "--model.tied", "--model.parametrization", "low_rank"],
    "unitary": [],
    "unitary_without_fourier": [],
}
EXPERIMENTS = [module.EXPERIMENT for module in (adding, char_lm, copy_memory, permuted_mnist)]


@pytest.mark.slow
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
@pytest.mark.parametrize("name", BASELINES)
def test_an_update_can_be_made(name, experiment):
    cell = [] if "--model.cell" in BASELINES[name] else ["--model.cell", name]
    command = parse(experiment, ["--no-compare", *cell, *BASELINES[name]])
    config = command.config
    task = config.data.build(0)
    model = config.model.build(task.input_size, task.output_size, task.reads)
    optimizer, train = config.optim.build(), task.splits["train"]

    def update(arrays):
        state = init_state(model, task, optimizer, 0, config.train.batch_size)
        rows = jnp.zeros((config.train.batch_size,), jnp.int32)
        return state, train_step(model, task, optimizer, state, train.batch(arrays, rows))

    before, (after, figures) = jax.eval_shape(update, train.arrays)
    assert jax.tree.map(jnp.shape, after.params) == jax.tree.map(jnp.shape, before.params)
    assert figures["loss"].shape == ()


def test_the_unitary_network_of_the_paper_pays_for_its_scale():
    """The penalty 5 sum (s - 1)^2 is a part of what its gradient is of: at s = 1.1 its slope is 10 (s - 1) n in sum."""
    config = parse(copy_memory.EXPERIMENT, ["--model.cell", "unitary_without_fourier", "--model.size", "6"]).config
    model = config.model.build(10, 10, "all")
    inputs = jnp.zeros((1, 2), jnp.int32)
    variables = model.init(jax.random.key(0), inputs)
    variables["params"]["recurrent"]["cell"]["operator"]["scale"] = jnp.full((6,), 1.1)
    _, sown = model.apply(variables, inputs, train=True, mutable=["penalties"])
    (penalty,) = jax.tree.leaves(sown)
    assert penalty == pytest.approx(5 * 6 * 0.01, rel=1e-5)
    assert not jax.tree.leaves(model.apply(variables, inputs, mutable=["penalties"])[1])
