"""Numbers that the subcommands print of a trained network: means by network ('untrained', 'trained'), layer and step."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PyTree

from experiments.inspect_rhn.reading import (
    Reading,
    all_jacobians,
    both,
    check_highway,
    check_steps,
    jacobians,
    longest_of,
    loss_of,
    reading,
)
from lrpt.analysis.gates import gate_activity
from lrpt.analysis.gradient_flow import MatrixNorm, layers_of, matrix_norms, products, step_bound
from lrpt.analysis.jacobian import eigenvalues, gershgorin_discs, states_before
from lrpt.analysis.lesions import Lesions, lesions
from lrpt.errors import UsageError
from lrpt.recurrence import recur
from lrpt.trained.loading import Loaded

EXAMPLES, STEPS, LONGEST = 8, (1, 8, 24), 16
"""How many examples Jacobians are read at, at which steps, and over how many steps."""


class Disc(NamedTuple):
    """Means over examples of the Jacobian at one step.

    Attributes:
      network: 'untrained' or 'trained'.
      step: counted from 1.
      centre, radius: of the Gershgorin discs, the mean over units.
      spectral_radius: the largest absolute value of an eigenvalue.
      logarithm: its natural logarithm, averaged.
    """

    network: str
    step: int
    centre: float
    radius: float
    spectral_radius: float
    logarithm: float


class Span(NamedTuple):
    """Geometric means over examples of the Jacobian over several steps.

    Attributes:
      network: 'untrained' or 'trained'.
      steps: how many.
      norm: the spectral norm.
      by_step: its root of that order.
      spectral_radius: the largest absolute value of an eigenvalue.
      bound: of the norm, by singular values; None for cells that have no such bound.
    """

    network: str
    steps: int
    norm: float
    by_step: float
    spectral_radius: float
    bound: float | None


class Activity(NamedTuple):
    """The mean of a gate over units, steps and examples, and its deviation over steps and examples."""

    network: str
    layer: int
    mean: float
    deviation: float


def longest_example(trained: Loaded) -> int:
    """Return the number of steps of the longest of the first training examples."""
    return longest_of(trained, EXAMPLES)


def steps_of_discs(trained: Loaded, examples: int, given: Sequence[int] | None) -> Sequence[int]:
    """Return the steps that are given, or else those of `STEPS` that the first examples have.

    Raises:
      UsageError: one is given that no example has.
    """
    longest = longest_of(trained, examples)
    if given is None:
        return [step for step in STEPS if step <= longest]
    check_steps(f"steps is {' '.join(map(str, given)) or 'empty'}", given, longest)
    return given


def steps_of_flow(trained: Loaded, examples: int, start: int, given: int | None) -> int:
    """Return how many steps are given, or else `LONGEST`, or as many as the first examples have from `start` on.

    Raises:
      UsageError: no example has as many.
    """
    longest = longest_of(trained, examples)
    count = min(LONGEST, max(longest - start + 1, 1)) if given is None else given
    if start + count - 1 > longest:
        said = f"start is {start}" + ("" if given is None else f" and steps is {given}")
        raise UsageError(f"{said}: the sequences of this run have {longest} steps, so end at the last of them or before")
    return count


def discs_of(trained: Loaded, examples: int = EXAMPLES, *, steps: Sequence[int]) -> tuple[list[Disc], dict[str, Any]]:
    """Return the discs of both networks at each step, and the Jacobians of the first example by a title.

    Raises:
      UsageError: no example has one of the steps.
    """
    discs, firsts = [], {}
    for name, variables in both(trained).items():
        for step, J in zip(steps, jacobians(reading(trained, variables, examples), steps), strict=True):
            firsts[f"{name}, step {step}"] = J[0]
            found, largest = gershgorin_discs(J), np.abs(eigenvalues(J)).max(axis=-1)
            means = found.centres.mean(), found.radii.mean(), largest.mean(), np.log(largest).mean()
            discs.append(Disc(name, step, *map(float, means)))
    return discs, firsts


def flow_of(
    trained: Loaded, examples: int = EXAMPLES, start: int = 1, longest: int = LONGEST
) -> tuple[list[Span], dict[str, Float[np.ndarray, "s b"]]]:
    """Return means over 1, 2, 4, ... steps from `start` of both networks, and the norms of every example.

    Raises:
      UsageError: no example is as long.
    """
    steps, spans, norms = range(start, start + longest), [], {}
    for name, variables in both(trained).items():
        read = reading(trained, variables, examples)
        found = all_jacobians(read, steps)
        whole = found.counted.all(axis=0)
        over = products(found.of_step[:, whole])
        norms[name] = np.linalg.norm(over, 2, axis=(-2, -1))
        bounds = _bounds(read, steps)
        for k in _powers(longest):
            mean, radius = _geometric(norms[name][k - 1]), _geometric(np.abs(eigenvalues(over[k - 1])).max(axis=-1))
            bound = None if bounds is None else _geometric(bounds[:k, whole].prod(axis=0))
            spans.append(Span(name, k, mean, mean ** (1 / k), radius, bound))
    return spans, norms


def _geometric(values: Float[np.ndarray, " b"]) -> float:
    """Return the geometric mean of numbers that may be 0, which count as the smallest normal number."""
    return float(np.exp(np.log(np.maximum(values, np.finfo(np.float64).tiny)).mean()))


def _powers(largest: int) -> list[int]:
    """Return 1, 2, 4, ... up to the largest number of steps, and that number."""
    return sorted({*(2**i for i in range(largest.bit_length())), largest})


def _bounds(read: Reading, steps: Sequence[int]) -> Float[np.ndarray, "s b"] | None:
    """Return the bound of each step's Jacobian for each example, or None if the cell has no bound by singular values."""
    try:
        layers_of(read.params)
    except UsageError:
        return None
    before = states_before(read.network.cell.step, read.params, read.carry, read.xs, read.mask)
    return np.stack([step_bound(read.params, before[step - 1], read.xs[step - 1]) for step in steps])


def bounds_of(trained: Loaded) -> dict[str, list[MatrixNorm]]:
    """Return the largest singular values of the recurrent matrices of both networks.

    Raises:
      UsageError: the cell has no bound by singular values.
    """
    return {name: matrix_norms(reading(trained, variables, 1).params) for name, variables in both(trained).items()}


def gates_of(trained: Loaded, examples: int, gate: str = "transform") -> tuple[list[Activity], Float[np.ndarray, "b l t"]]:
    """Return the activity of each layer's gate in both networks, and after training its means over units.

    Raises:
      UsageError: the network is no recurrent highway network of one layer, or has no such gate.
    """
    found = {name: _activity(trained, variables, examples, gate) for name, variables in both(trained).items()}
    layers = range(found["trained"].shape[1])
    means = [
        Activity(name, i + 1, float(np.nanmean(own[:, i])), float(np.nanstd(own[:, i]))) for name, own in found.items() for i in layers
    ]
    return means, found["trained"]


def _activity(trained: Loaded, variables: PyTree, examples: int, gate: str) -> Float[np.ndarray, "b l t"]:
    network, params, carry, xs, mask = reading(trained, variables, examples)
    check_highway(trained, network)
    info = jax.jit(lambda params, xs: recur(network.cell.step, params, carry, xs, mask, outputs="info")[1][1])(params, xs)
    return gate_activity(info, gate, mask)


def lesions_of(trained: Loaded, examples: int | None = None) -> Lesions:
    """Return the training loss with the gates of each layer held.

    Args:
      trained: the network.
      examples: number of the first examples (None: the whole training part).

    Raises:
      UsageError: the network is no recurrent highway network of one layer.
    """
    check_highway(trained, reading(trained, trained.variables, examples or 1).network)
    return lesions(trained.variables["params"], loss_of(trained, examples))
