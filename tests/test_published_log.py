"""The first updates of three runs that were published in 2016 with their logs, replayed through the public API."""

from itertools import islice

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import permuted_mnist
from experiments.replay.command import compared, main
from experiments.replay.copying import TRAIN, variable_length_data, variable_length_symbols
from experiments.replay.logs import LOGS
from experiments.replay.starts import draw_parameters
from experiments.replay.training import replayed
from lrpt.matrices import num_params
from lrpt.runs.named_arrays import load
from lrpt.tasks import Example
from lrpt.training.step import forward

# Of equal probabilities another machine may prefer another symbol: one step of a batch of 20 x 120.
ONE_STEP = 1 / 2400 + 1e-6


def first(name, updates, mnist=None):
    """The metrics of the first updates, and the network, the task and the parameters after the first update."""
    model, task, made = replayed(LOGS[name], mnist)
    found = list(islice(made, updates))
    return {key: np.array([one.metrics[key] for one in found]) for key in found[0].metrics}, model, task, found[0].state.params


def test_parameters_are_drawn_as_in_2016():
    drawn = draw_parameters(10, 10, 128, 50, diagonal=True)
    published = {"W_m": 1.1314e-3, "W_u": -3.3975e-3, "W_r": 2.5173e-3, "R_m": -1.1825e-5, "R_u": 5.8710e-4, "R_r": -4.1039e-4}
    for name, mean in published.items():
        np.testing.assert_allclose(drawn[name].astype(np.float64).mean(), mean, rtol=1e-4)


def test_sequences_are_drawn_as_in_2016():
    assert [ids.tolist() for ids in variable_length_symbols(3)] == [[0, 3, 3, 3, 7, 1], [5, 2, 4, 7], [0, 0, 4, 2, 1, 6, 7]]


def test_the_variable_length_run_starts_as_its_log():
    seen, model, task, after_first = first("variable_length", 12)
    assert num_params(after_first) == 44_426
    np.testing.assert_allclose(seen["loss"], LOGS["variable_length"].losses[:12], rtol=0, atol=2e-6)
    np.testing.assert_allclose(seen["accuracy"][:3], [0.0075, 0.110416665673, 0.696666657925], rtol=0, atol=ONE_STEP)
    np.testing.assert_allclose(seen["gradient_norm"][0], 1.5521, rtol=0, atol=5e-5)
    assert seen["recoveries"][-1] == 0

    inputs, targets = variable_length_data(variable_length_symbols(), lag=100)
    held_out = Example(*(jnp.asarray(a[TRAIN:].reshape(20, -1, a.shape[1])) for a in (inputs, targets)))
    evaluate = jax.jit(lambda chunks: jax.lax.map(lambda batch: forward(model, task, {"params": after_first}, batch).metrics, chunks))
    seen = evaluate(held_out)
    np.testing.assert_allclose(seen["loss"].mean(), 2.22387981415, rtol=0, atol=2e-6)
    np.testing.assert_allclose(seen["accuracy"].mean(), 0.119159169495, rtol=0, atol=2e-5)


@pytest.mark.slow
def test_the_fixed_lag_run_of_a_full_gru_starts_as_its_log():
    """Without an epsilon in RMSProp; with that of the script, losses differ by 2e-5 after 30 updates."""
    seen, *_ = first("fixed_lag", 40)
    np.testing.assert_allclose(seen["loss"], LOGS["fixed_lag"].losses[:40], rtol=0, atol=2e-6)
    np.testing.assert_allclose(seen["accuracy"][0], 0.00490384595469, rtol=0, atol=ONE_STEP)


@pytest.mark.slow
def test_the_run_on_permuted_mnist_follows_its_log(data_dir):
    """Until the loss begins to fall, it tells little about the images."""
    seen, *_ = first("permuted_mnist", 300, data_dir)
    published = LOGS["permuted_mnist"].losses[:300]
    assert np.ptp(published[:100]) < 0.1 < np.ptp(published[200:])
    np.testing.assert_allclose(seen["loss"], published, rtol=0, atol=5e-6)


def test_the_network_of_the_log_on_permuted_mnist_is_that_of_the_preset():
    log, preset = LOGS["permuted_mnist"], permuted_mnist.ORIGINAL
    assert (log.config, "permuted_mnist_original") == (preset.model, preset.optim.recipe)


def test_agreement_ends_at_the_first_difference():
    log = LOGS["variable_length"]
    ours = log.losses[:50] + 1e-7
    ours[30], ours[40] = np.nan, 5.0
    found = compared(log, ours)
    assert (found.updates, found.close) == (50, 30)
    assert np.isnan(found.largest)


def test_more_updates_than_are_stored_are_refused(capsys):
    with pytest.raises(SystemExit) as end:
        main(["variable_length", "--updates", "3001"])
    assert end.value.code == 2
    assert "updates is 3001, and 3,000 losses of variable_length are stored: choose fewer" in capsys.readouterr().err


def test_a_replay_prints_both_losses_and_their_largest_difference(capsys):
    main(["variable_length", "--updates", "3"])
    text = capsys.readouterr().out
    assert [line.split()[:2] for line in text.splitlines()[2:5]] == [["0", "2.2591441"], ["1", "2.2231801"], ["2", "2.1890380"]]
    assert "largest difference of the training losses of 3 updates" in text


def test_initial_parameters_are_written_as_the_preset_reads_them(capsys, tmp_path):
    main(["permuted_mnist", "--start", str(tmp_path / "start.npz")])
    assert f"initial parameters of permuted_mnist: {tmp_path / 'start.npz'}" in capsys.readouterr().out
    model = permuted_mnist.ORIGINAL.model.build(1, 10, "last")
    template = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((1, 2, 1)))["params"]
    read = load(tmp_path / "start.npz", template)
    np.testing.assert_array_equal(read["readout"]["kernel"], draw_parameters(1, 10, 128, 24)["out"])
    np.testing.assert_array_equal(read["recurrent"]["cell"]["bias"]["update"], np.full(128, 5.0))


def test_initial_parameters_of_two_runs_are_refused(capsys, tmp_path):
    with pytest.raises(SystemExit):
        main(["--start", str(tmp_path / "start.npz")])
    assert "which holds the parameters of one run: name one of variable_length, fixed_lag, permuted_mnist" in capsys.readouterr().err
