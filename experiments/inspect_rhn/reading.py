"""Inputs of a trained recurrent network, and its Jacobians and losses on them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from lrpt.analysis.jacobian import states_before, step_jacobian
from lrpt.errors import UsageError
from lrpt.networks.recurrent import Recurrent
from lrpt.trained.loading import Loaded
from lrpt.training.program import evaluator_of_one
from lrpt.training.step import forward

HIGHWAY = ("rhn", "rhn_uncoupled")
"""cells of recurrent highway networks"""


class Reading(NamedTuple):
    """Embedded time-major examples, and the network that reads them."""

    network: Recurrent
    params: Any
    carry: Any
    xs: Float[Array, "t b m"] | Int[Array, "t b"]
    mask: Bool[Array, "t b"] | None


def reading(trained: Loaded, variables: PyTree, examples: int) -> Reading:
    """Return the first training examples of a run, and its network with the given variables.

    Raises:
      UsageError: the network is no recurrent one, or there are fewer examples.
    """
    network, train = trained.recurrent, trained.task.splits["train"]
    if examples > train.size:
        raise UsageError(f"examples is {examples}, and the run has {train.size} of them: choose fewer")
    batch = train.batch(train.arrays, jnp.arange(examples))
    _, params, carry, xs = trained.over_time(batch.inputs, variables, standardized=True)
    return Reading(network, params, carry, xs, None if batch.mask is None else batch.mask.T)


def longest_of(trained: Loaded, examples: int) -> int:
    """Return the number of steps of the longest of the first training examples. Nothing of the network is computed."""
    train = trained.task.splits["train"]
    batch = train.batch(train.arrays, jnp.arange(min(examples, train.size)))
    return batch.inputs.shape[1] if batch.mask is None else int(np.sum(batch.mask, axis=1).max())


def check_steps(given: str, steps: Sequence[int], longest: int) -> None:
    """Raise a UsageError unless every step, counted from 1, is a step of the longest example. `given` says what the user gave."""
    if not steps or min(steps) < 1 or max(steps) > longest:
        raise UsageError(f"{given}: the sequences of this run have {longest} steps, so choose numbers from 1 to {longest}")


def both(trained: Loaded) -> dict[str, Any]:
    """Return the variables at initialization, drawn again from the seed, and after training, by name."""
    return {"untrained": trained.initial, "trained": trained.variables}


class Jacobians(NamedTuple):
    """Temporal Jacobians of every example at some steps: `of_step`, (s, b, k, k), and whether the example has the step, (s, b)."""

    of_step: Float[np.ndarray, "s b k k"]
    counted: Bool[np.ndarray, "s b"]


def jacobians(read: Reading, steps: Sequence[int]) -> list[Float[np.ndarray, "b k k"]]:
    """Return the Jacobians at each of the steps, counted from 1, for all examples that have the step.

    Raises:
      UsageError: no example has one of them.
    """
    found = all_jacobians(read, steps)
    return [of_step[valid] for of_step, valid in zip(*found, strict=True)]


def all_jacobians(read: Reading, steps: Sequence[int]) -> Jacobians:
    """Return the Jacobians at each of the steps, counted from 1.

    Raises:
      UsageError: no example has one of the steps.
    """
    cell, (_, params, carry, xs, mask) = read.network.cell.step, read
    check_steps(f"steps is {' '.join(map(str, steps))}", steps, len(xs))

    @jax.jit
    def at(params: PyTree, places: Int[Array, " s"]) -> Float[Array, "s b k k"]:
        before = states_before(cell, params, carry, xs, mask)
        return jax.lax.map(lambda i: step_jacobian(cell, params, jax.tree.map(lambda a: a[i], before), xs[i]), places)

    found = np.asarray(at(params, jnp.asarray(steps) - 1))
    counted = np.ones((len(steps), found.shape[1]), bool) if mask is None else np.asarray(mask)[np.asarray(steps) - 1]
    if not counted.any(axis=1).all():
        raise UsageError(f"steps is {' '.join(map(str, steps))}, and no example is as long: choose earlier ones, or more --examples")
    return Jacobians(found, counted)


def loss_of(trained: Loaded, examples: int | None) -> Callable[[Any], float]:
    """Return the function from parameters to the loss on the training split, without dropout.

    Args:
      trained: the network; its other variables stay as they are.
      examples: number of the first examples that count, each read from the initial state; None for the whole training split, read as in
        evaluation, with the state carried through a stream.
    """
    task, variables = trained.task, trained.variables
    train = task.splits["train"]
    if examples is None:
        metrics = evaluator_of_one(trained.model, task, "train", trained.config.train.evaluation_rows)
        return lambda params: metrics({**variables, "params": params})["loss"]

    @jax.jit
    def means(params: PyTree) -> dict[str, Array]:
        batch = train.batch(train.arrays, jnp.arange(examples))
        return jax.tree.map(jnp.mean, forward(trained.model, task, {**variables, "params": params}, batch).metrics)

    return lambda params: task.summarize({name: float(value) for name, value in means(params).items()})["loss"]


def check_highway(trained: Loaded, network: Recurrent) -> None:
    """Raise a UsageError unless a run holds one recurrent highway network."""
    config = network.config
    if config.cell not in HIGHWAY or config.layers > 1:
        raise UsageError(f"{trained.path} holds a {config.label}: name a run of one recurrent highway network ({' or '.join(HIGHWAY)})")
