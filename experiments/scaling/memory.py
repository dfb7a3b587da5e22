"""Memory of an update against steps and state size, from what the compiler reports for small programs."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from experiments.benchmark.contenders import jax_contender, lrpt_network
from experiments.benchmark.workloads import Workload
from lrpt.networks.configuration import SequenceLoopConfig, TiedStorageConfig
from lrpt.networks.counting import count
from lrpt.networks.sequence_model import ModelConfig

COPIES = 4
"""Copies of the parameters: themselves, their gradient, and two for an optimizer such as Adam."""

CHUNK = 32
"""Steps per chunk of the chunked loop."""

LENGTHS = (128, 256)
"""Lengths T at which memory is measured."""

LOOPS = {"plain": ("plain", "auto"), "fast, --model.store all": ("fast", "all"), "fast, --model.store boundaries": ("fast", "boundaries")}
"""Ways to differentiate the recurrence: name -> loop, and what the chunked loop stores."""


class Fit(NamedTuple):
    """Coefficients of the bytes of temporaries: B T (a n + b) + c n + d."""

    a: float
    b: float
    c: float
    d: float

    def bytes(self, size: int, rows: int) -> float:
        """Return the bytes for a state of `size` and B T = `rows`."""
        return rows * (self.a * size + self.b) + self.c * size + self.d


def fit(measured: Callable[[int, int], float], batch: int, sizes: tuple[int, int]) -> Fit:
    """Solve for the coefficients from the temporaries at two sizes and two lengths (`LENGTHS`).

    Args:
      measured: (n, T) -> bytes.
      batch: B.
      sizes: two values of n.
    """
    points = [(n, t) for n in sizes for t in LENGTHS]
    matrix = np.array([[batch * t * n, batch * t, n, 1.0] for n, t in points])
    return Fit(*map(float, np.linalg.solve(matrix, np.array([measured(n, t) for n, t in points]))))


def temporaries_of(loop: str, store: str, rank: int, batch: int) -> Callable[[int, int], float]:
    """Return a function (n, T) -> bytes of temporaries that the compiler reports for an update of a low-rank-plus-diagonal GRU.

    Args:
      loop: kind of the loop over time.
      store: what the chunked loop stores.
      rank: d, at most n.
      batch: B.
    """

    def temporaries(size: int, steps: int) -> float:
        model = ModelConfig(
            size=size,
            matrices=TiedStorageConfig("low_rank_plus_diagonal", min(rank, size)),
            loop=SequenceLoopConfig(chunk=CHUNK, store=store, materialize="never"),
        )
        workload = Workload(model, 2, 1, steps, batch, "last")
        return jax_contender(lrpt_network(loop), workload).metrics["temporary_bytes"]

    return temporaries


def longest(found: Fit, parameters: int, size: int, batch: int, budget: float) -> int:
    """Return the largest T that fits into a budget of bytes, or 0."""
    room = budget - COPIES * 4 * parameters - found.c * size - found.d
    return max(int(room / (batch * (found.a * size + found.b))), 0)


def largest(found: Fit, rank: int, steps: int, batch: int, budget: float) -> int:
    """Return the largest n that fits into a budget of bytes, or 0. The number of parameters also grows with n."""
    low, high = 0, 2**40
    while high - low > 1:
        middle = (low + high) // 2
        fits = COPIES * 4 * recurrent_parameters(middle, rank) + found.bytes(middle, batch * steps) <= budget
        low, high = (middle, high) if fits else (low, middle)
    return low


def recurrent_parameters(size: int, rank: int) -> int:
    """Count the parameters of a GRU with two inputs and low-rank-plus-diagonal matrices."""
    start, slope = _line(rank)
    return start + (size - rank) * slope


@cache
def _line(rank: int) -> tuple[int, int]:
    """Return the number of parameters at n = rank, and the number added per unit. The total is linear in n, so two counts suffice."""
    one, two = (count(ModelConfig(size=n, matrices=TiedStorageConfig("low_rank_plus_diagonal", rank)), 2, 1).true for n in (rank, 2 * rank))
    return one, (two - one) // rank
