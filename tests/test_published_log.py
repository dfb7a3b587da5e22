"""The first updates of two runs that were published in 2016 with their logs, replayed through the public API.

lowrank-gru (Miceli Barone): RNN_Danihelka_memory_100-GRU_LRDiag_128_50_b4.out.gz and RNN_memory.out-GRU_LR-500.gz. Parameters and data are
drawn here as that code drew them, by NumPy's legacy generator; the model, the loss, the optimizer and the update are the library's.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lrpt.matrices import num_params
from lrpt.networks.sequence_model import ModelConfig, SequenceModel
from lrpt.optim import OptimConfig
from lrpt.runs.named_arrays import from_named
from lrpt.tasks.synthetic import ALPHABET, BLANK, RUN, CopyMemory
from lrpt.tasks.task import Example
from lrpt.training.step import TrainState, forward, train_step

GATES = {"candidate": "m", "update": "u", "reset": "r"}
N_TRAIN, N_TEST, BATCH = 100_000, 10_000, 20
OPTIMIZER = OptimConfig("copy_memory").build()
TASK = CopyMemory().build(seed=0)  # judges predictions; its own examples are not used

# Of equal probabilities another machine may prefer another symbol: one step of a batch of 20 x 120.
ONE_STEP = 1 / 2400 + 1e-6

# Train cross-entropy of updates 0, 1, ..., as the logs print it.
VARIABLE_LENGTH_LOSSES = [
    2.25914406776, 2.22318005562, 2.18903803825, 2.15970087051, 2.12924671173, 2.09839320183,
    2.07890534401, 2.03990912437, 2.01207613945, 1.98609995842, 1.94784474373, 1.92382442951,
]  # fmt: skip
FIXED_LAG_LOSSES = [2.25405931473, 2.19453239441, 2.13804411888, 2.08597421646, 2.03500080109, 1.98625063896]


def draw_parameters(n: int, rank: int | None) -> dict[str, np.ndarray]:
    """Start parameters by their names in lowrank-gru, models.py, and in the order in which it draws them; `rank` None for a full GRU."""
    rng = np.random.RandomState(1234)

    def glorot(rows: int, columns: int) -> np.ndarray:
        bound = np.sqrt(6.0 / (rows + columns))
        return rng.uniform(-bound, bound, (rows, columns)).astype(np.float32)

    drawn = {f"W_{k}": glorot(ALPHABET, n) for k in "mur"}
    if rank is None:
        drawn |= {f"U_{k}": glorot(n, n) for k in "mur"}
    else:
        drawn |= {f"R_{k}": glorot(n, rank) for k in "mur"}
        drawn |= {f"D_{k}": rng.uniform(-0.01, 0.01, n).astype(np.float32) for k in "mur"}
        drawn |= {f"L_{k}": glorot(rank, n) for k in "mur"}
    return drawn | {"out": glorot(n, ALPHABET)}


def renamed(drawn: dict[str, np.ndarray], n: int, carry_bias: float) -> dict[str, np.ndarray]:
    """The same parameters, and the constants, by their names in this library. The original stores R as (n, d) and L as (d, n)."""
    arrays = {"readout/kernel": drawn["out"], "readout/bias": np.zeros(ALPHABET), "recurrent/initial_state": np.zeros(n)}
    for gate, k in GATES.items():
        recurrent = f"recurrent/cell/recurrent/{gate}"
        arrays[f"recurrent/cell/input/{gate}/kernel"] = drawn[f"W_{k}"]
        arrays[f"recurrent/cell/bias/{gate}"] = np.full(n, carry_bias if gate == "update" else 0.0)
        if f"U_{k}" in drawn:
            arrays[f"{recurrent}/kernel"] = drawn[f"U_{k}"]
        else:
            arrays[f"{recurrent}/right"] = drawn[f"R_{k}"].T
            arrays[f"{recurrent}/left"] = drawn[f"L_{k}"]
            arrays[f"{recurrent}/diagonal"] = drawn[f"D_{k}"]
    return arrays


def variable_length_symbols() -> list[np.ndarray]:
    """lowrank-gru, make_Danihelka_var_len_memory_data.py: for each sequence a length in 1..10, then that many symbols in 0..7."""
    rng = np.random.RandomState(0)
    return [rng.randint(0, 8, rng.randint(1, 11)) for _ in range(N_TRAIN + N_TEST)]


def variable_length_data(symbols: list[np.ndarray], lag: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets (sequences, lag + 20): the symbols, and after `lag` steps, the last of which says run, the symbols again."""
    inputs = np.full((len(symbols), lag + 20), BLANK)
    targets = inputs.copy()
    for x, y, ids in zip(inputs, targets, symbols, strict=True):
        x[: len(ids)] = ids
        x[len(ids) + lag - 1] = RUN
        y[len(ids) + lag : 2 * len(ids) + lag] = ids
    return inputs, targets


def january_data(lag: int) -> tuple[np.ndarray, np.ndarray]:
    """make_memory_data.py as of January 2016: ten symbols drawn from 1..8, so that one of them is the blank."""
    symbols = np.random.RandomState(0).randint(1, 9, (10, N_TRAIN + N_TEST)).T
    inputs = np.full((len(symbols), lag + 20), BLANK)
    targets = inputs.copy()
    inputs[:, :10], inputs[:, lag + 9], targets[:, lag + 10 :] = symbols, RUN, symbols
    return inputs, targets


def batches(inputs: np.ndarray, targets: np.ndarray):
    """The batches of RNN_memory.py: before every update the training set as it stands is permuted again, then update i takes batch i."""
    rng = np.random.RandomState(1234)
    order = np.arange(N_TRAIN)
    for i in range(N_TRAIN // BATCH):
        order = order[rng.permutation(N_TRAIN)]
        rows = order[BATCH * i : BATCH * (i + 1)]
        yield Example(jnp.asarray(inputs[rows]), jnp.asarray(targets[rows]))


def start(model: SequenceModel, arrays: dict[str, np.ndarray]) -> TrainState:
    template = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((1, 2), jnp.int32))["params"]
    params = from_named(template, arrays)
    return TrainState(params, OPTIMIZER.init(params), jnp.zeros((), jnp.int32))


def replay(model: SequenceModel, state: TrainState, updates: int, inputs: np.ndarray, targets: np.ndarray):
    """The figures of each update, and the parameters after the first."""
    step = jax.jit(partial(train_step, model, TASK, OPTIMIZER))
    states, figures = [state], []
    for _, batch in zip(range(updates), batches(inputs, targets), strict=False):
        state, seen = step(states[-1], batch)
        states.append(state)
        figures.append(seen)
    return {name: np.array([f[name] for f in figures]) for name in figures[0]}, states[1].params


@pytest.fixture(scope="module")
def symbols() -> list[np.ndarray]:
    return variable_length_symbols()


def test_parameters_are_drawn_as_in_2016():
    drawn = draw_parameters(128, 50)
    published = {"W_m": 1.1314e-3, "W_u": -3.3975e-3, "W_r": 2.5173e-3, "R_m": -1.1825e-5, "R_u": 5.8710e-4, "R_r": -4.1039e-4}
    for name, mean in published.items():
        np.testing.assert_allclose(drawn[name].astype(np.float64).mean(), mean, rtol=1e-4)


def test_sequences_are_drawn_as_in_2016(symbols):
    assert [ids.tolist() for ids in symbols[:3]] == [[0, 3, 3, 3, 7, 1], [5, 2, 4, 7], [0, 0, 4, 2, 1, 6, 7]]


def test_the_variable_length_run_starts_as_its_log(symbols):
    inputs, targets = variable_length_data(symbols, lag=100)
    config = ModelConfig(cell="gru", size=128, parametrization="low_rank_plus_diagonal", rank=50, carry_bias=4.0)
    model = SequenceModel(config, ALPHABET, ALPHABET, "all")
    state = start(model, renamed(draw_parameters(128, 50), 128, carry_bias=4.0))
    assert num_params(state.params) == 44_426

    seen, after_first = replay(model, state, len(VARIABLE_LENGTH_LOSSES), inputs, targets)
    np.testing.assert_allclose(seen["loss"], VARIABLE_LENGTH_LOSSES, rtol=0, atol=2e-6)
    np.testing.assert_allclose(seen["accuracy"][:3], [0.0075, 0.110416665673, 0.696666657925], rtol=0, atol=ONE_STEP)
    np.testing.assert_allclose(seen["gradient_norm"][0], 1.5521, rtol=0, atol=5e-5)
    assert seen["recoveries"][-1] == 0

    held_out = Example(*(jnp.asarray(a[N_TRAIN:].reshape(20, -1, a.shape[1])) for a in (inputs, targets)))
    seen = jax.jit(lambda chunks: jax.lax.map(lambda batch: forward(model, TASK, {"params": after_first}, batch).metrics, chunks))(held_out)
    np.testing.assert_allclose(seen["loss"].mean(), 2.22387981415, rtol=0, atol=2e-6)
    np.testing.assert_allclose(seen["accuracy"].mean(), 0.119159169495, rtol=0, atol=2e-5)


@pytest.mark.slow
def test_the_fixed_lag_run_of_a_full_gru_starts_as_its_log():
    """The log is named GRU_LR-500; the script of that time built a full GRU of 100 units under that name."""
    model = SequenceModel(ModelConfig(cell="gru", size=100, parametrization="dense", carry_bias=4.0), ALPHABET, ALPHABET, "all")
    state = start(model, renamed(draw_parameters(100, None), 100, carry_bias=4.0))
    seen, _ = replay(model, state, len(FIXED_LAG_LOSSES), *january_data(lag=500))
    np.testing.assert_allclose(seen["loss"], FIXED_LAG_LOSSES, rtol=0, atol=2e-6)
    np.testing.assert_allclose(seen["accuracy"][0], 0.00490384595469, rtol=0, atol=ONE_STEP)
