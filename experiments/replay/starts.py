"""Initial parameters of GRUs as `models.py` of lowrank-gru draws them, by NumPy's legacy generator, and by their names in this library."""

import numpy as np
from jaxtyping import Float

from lrpt.networks.sequence_model import ModelConfig
from lrpt.tasks.images import ORIGINAL_SEED

GATES = {"candidate": "m", "update": "u", "reset": "r"}
"""gate -> its letter in models.py, whose order is that in which it draws"""

Arrays = dict[str, Float[np.ndarray, "..."]]


def draw_parameters(inputs: int, outputs: int, n: int, rank: int | None = None, diagonal: bool = False) -> Arrays:
    """Return the parameters that are drawn, by their names in `models.py`.

    Args:
      inputs: width of the input.
      outputs: number of classes.
      n: width of the state.
      rank: that of the recurrent matrices (None: they are dense).
      diagonal: whether low-rank matrices have a diagonal in addition.
    """
    generator = np.random.RandomState(ORIGINAL_SEED)

    def glorot(rows: int, columns: int) -> Float[np.ndarray, "r c"]:
        bound = np.sqrt(6.0 / (rows + columns))
        return generator.uniform(-bound, bound, (rows, columns)).astype(np.float32)

    drawn = {f"W_{k}": glorot(inputs, n) for k in GATES.values()}
    if rank is None:
        drawn |= {f"U_{k}": glorot(n, n) for k in GATES.values()}
    else:
        drawn |= {f"R_{k}": glorot(n, rank) for k in GATES.values()}
        if diagonal:
            drawn |= {f"D_{k}": generator.uniform(-0.01, 0.01, n).astype(np.float32) for k in GATES.values()}
        drawn |= {f"L_{k}": glorot(rank, n) for k in GATES.values()}
    return drawn | {"out": glorot(n, outputs)}


def renamed(drawn: Arrays, carry_bias: float) -> Arrays:
    """Return the same parameters, and the constants, by their names in this library. The original stores R as (n, d) and L as (d, n)."""
    n, outputs = drawn["out"].shape
    arrays = {"readout/kernel": drawn["out"], "readout/bias": np.zeros(outputs), "recurrent/initial_state": np.zeros(n)}
    for gate, k in GATES.items():
        recurrent = f"recurrent/cell/recurrent/{gate}"
        arrays[f"recurrent/cell/input/{gate}/kernel"] = drawn[f"W_{k}"]
        arrays[f"recurrent/cell/bias/{gate}"] = np.full(n, carry_bias if gate == "update" else 0.0)
        if f"U_{k}" in drawn:
            arrays[f"{recurrent}/kernel"] = drawn[f"U_{k}"]
            continue
        arrays[f"{recurrent}/right"] = drawn[f"R_{k}"].T
        arrays[f"{recurrent}/left"] = drawn[f"L_{k}"]
        if f"D_{k}" in drawn:
            arrays[f"{recurrent}/diagonal"] = drawn[f"D_{k}"]
    return arrays


def original_start(config: ModelConfig, inputs: int, outputs: int) -> Arrays:
    """Return the initial parameters of a GRU with dense, low-rank or low-rank-plus-diagonal matrices, by name.

    Args:
      config: the network.
      inputs: width of its input, or number of symbols.
      outputs: number of classes.
    """
    kind = config.matrices.kind
    rank = None if kind == "dense" else config.matrices.rank
    drawn = draw_parameters(inputs, outputs, config.size, rank, diagonal=kind == "low_rank_plus_diagonal")
    return renamed(drawn, config.initial.carry_bias)
