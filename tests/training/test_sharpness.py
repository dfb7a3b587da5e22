"""The sharpness of masks through training: by epoch, in one program, and the same after an interruption in the middle."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import interrupted_after, lines, sharpening

from lrpt.runs.checkpoint import Checkpoints
from lrpt.training.loop import fit
from lrpt.training.step import init_state, train_steps, with_settings

ROWS, WINDOWS = 2, 5


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """Epochs of five updates; calls of two, so that some hold the border of two epochs. Evaluations are at 4, 8 and 12."""
    return sharpening(tmp_path_factory.mktemp("text") / "text.txt", 0.3, 0.2, 0.6, 0.01, updates=12, updates_per_call=2)


def state_of(path, config):
    """The state in the newest checkpoint."""
    task = config.data.build(0)
    model = config.model.build(task.input_size, task.output_size, task.reads)
    checkpoints = Checkpoints(path / "checkpoints", pytest.fail)
    return checkpoints.latest(jax.device_get(init_state(model, task, config.optim.build(), 0, ROWS))).state


def sharpness(state):
    return float(state.collections["settings"]["recurrent"]["cell"]["sharpness"])


def test_an_epoch_has_five_updates(config):
    assert config.data.build(0).splits["train"].size // ROWS == WINDOWS


@pytest.mark.slow
def test_resumed_in_the_middle_of_the_schedule(config, whole, tmp_path):
    seen = []
    for _ in range(5):
        with interrupted_after(1):
            fit(config, {0: tmp_path / "run"}, devices=1)
        seen.append(sharpness(state_of(tmp_path / "run", config)))
    fit(config, {0: tmp_path / "run"}, devices=1)
    # That of the last update made: 2, 4, 6, 8 and 10 of them, five to an epoch.
    np.testing.assert_allclose(seen, [0.3, 0.3, 0.5, 0.5, 0.5], rtol=1e-6)
    assert sharpness(state_of(tmp_path / "run", config)) == pytest.approx(0.6)
    assert lines(tmp_path / "run") == lines(whole)
    jax.tree.map(np.testing.assert_array_equal, state_of(tmp_path / "run", config), state_of(whole, config))


@pytest.mark.slow
def test_what_is_written_down(whole):
    train, valid = ([line for line in lines(whole) if line["split"] == split] for split in ("train", "valid"))
    shared = {"proportion", "active", "multiplications", "equivalent_size", "paper_equivalent_size", "bits_per_character"}
    assert all(shared <= line.keys() for line in train + valid)
    assert all({"agreement", "output_distance"} <= line.keys() for line in valid)
    assert not any(name in line for line in train + valid for name in ("active_squared", "schedule"))


def test_one_program_serves_all_epochs(config):
    task = config.data.build(0)
    model, optimizer = config.model.build(task.input_size, task.output_size, task.reads), config.optim.build()
    traced = []

    def settings(update, epoch):
        traced.append(update)
        return config.model.settings(update, epoch)

    @jax.jit
    def update(state, arrays, indices):
        return train_steps(model, task, lambda _: optimizer, state, arrays, indices, epoch=WINDOWS, settings=settings)[0]

    state, arrays = init_state(model, task, optimizer, 0, ROWS), task.splits["train"].arrays
    found = []
    for position in (0, 4, 5, 9, 10):
        rows = jnp.arange(ROWS)[None] * WINDOWS + position % WINDOWS
        state = update(state._replace(update=jnp.int32(position)), arrays, rows)
        found.append(sharpness(state))
    np.testing.assert_allclose(found, [0.3, 0.3, 0.5, 0.5, 0.6], rtol=1e-6)
    assert len(traced) == 1


def test_settings_are_set_by_the_end_of_their_names():
    collections = {"settings": {"cell": {"layers_0_sharpness": jnp.float32(1), "other": jnp.float32(2)}}, "batch_stats": {"mean": 3}}
    changed = with_settings(collections, {"sharpness": jnp.float32(0.5)})
    assert changed["batch_stats"] == {"mean": 3}
    assert {name: float(value) for name, value in changed["settings"]["cell"].items()} == {"layers_0_sharpness": 0.5, "other": 2}
    assert with_settings(None, {}) is None


@pytest.mark.slow
def test_units_with_constant_computation_are_counted_too(config, tmp_path):
    model = dataclasses.replace(config.model, cell="elman", embedding=5)
    result = fit(dataclasses.replace(config, model=model), {0: tmp_path / "run"}, devices=1)[0]
    assert result["metrics"]["test"]["paper_equivalent_size"] == pytest.approx(5)
    assert "proportion" not in result["metrics"]["test"]
