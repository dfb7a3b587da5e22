"""One update and one evaluation, as pure functions."""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from lrpt.data.task import Example, Split, Task
from lrpt.models import Start
from lrpt.optim import recoveries

Figures = dict[str, Array]


class TrainState(NamedTuple):
    """What an update changes: parameters, optimizer state, the number of updates so far, and, in a task of streams, their states."""

    params: Any
    opt_state: Any
    update: Int[Array, ""]
    carry: Any = None


def init_state(model: nn.Module, task: Task, optimizer: optax.GradientTransformation, seed: int, batch_size: int = 1) -> TrainState:
    """Parameters drawn from `seed`, the optimizer's start, and a state for each row of the batch where the task is one of streams."""
    train = task.splits["train"]

    @jax.jit
    def init(key: Array, arrays: Any) -> TrainState:
        example = train.batch(arrays, jnp.zeros((1,), jnp.int32))
        params = model.init(key, example.inputs, example.mask)["params"]
        carry = blank_carry(model, train, params, arrays, batch_size) if task.streams else None
        return TrainState(params, optimizer.init(params), jnp.zeros((), jnp.int32), carry)

    return init(jax.random.key(seed), train.arrays)


def blank_carry(model: nn.Module, split: Split, params: Any, arrays: Any, rows: int) -> Any:
    """Zeros in the shape of the state after a batch of so many rows."""

    def last() -> Any:
        example = split.batch(arrays, jnp.zeros((rows,), jnp.int32))
        return model.apply({"params": params}, example.inputs, example.mask, method="advance")[1]  # type: ignore[index]

    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(last))


def measure(model: nn.Module, task: Task, params: Any, batch: Example) -> dict[str, Float[Array, " b"]]:
    """The task's figures, one value for each example of the batch."""
    return task.measure(model.apply({"params": params}, batch.inputs, batch.mask), batch)  # type: ignore[arg-type]


def measure_from(model: nn.Module, task: Task, params: Any, batch: Example, start: Start) -> tuple[Figures, Any]:
    """As `measure`, for windows that continue others; and the state after the last step."""
    predictions, carry = model.apply({"params": params}, batch.inputs, batch.mask, start, method="advance")  # type: ignore[misc]
    return task.measure(predictions, batch), carry


def train_step(
    model: nn.Module,
    task: Task,
    optimizer: optax.GradientTransformation,
    state: TrainState,
    batch: Example,
    average: Callable[[Any], Any] = lambda tree: tree,
    fresh: Bool[Array, ""] | bool = False,
) -> tuple[TrainState, Figures]:
    """One update by the gradient of the batch's mean loss.

    Args:
      average: takes the mean over devices that hold other parts of the batch; it is applied to gradients and figures.
      fresh: in a task of streams, whether this update reads their first windows. No gradient goes back beyond a window.

    Returns:
      The new state, and the batch's figures before the update with the gradient's norm (before any clipping), as scalars.
    """

    def loss(params: Any) -> tuple[Array, tuple[Figures, Any]]:
        if task.streams:
            each, carry = measure_from(model, task, params, batch, Start(state.carry, jnp.asarray(fresh)))
        else:
            each, carry = measure(model, task, params, batch), None
        figures = jax.tree.map(jnp.mean, each)
        return figures["loss"], (figures, carry)

    grads, (figures, carry) = jax.grad(loss, has_aux=True)(state.params)
    grads, figures = average((grads, figures))
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    figures["gradient_norm"] = optax.tree.norm(grads)
    count = recoveries(opt_state)
    if count is not None:
        figures["recoveries"] = count
    return TrainState(optax.apply_updates(state.params, updates), opt_state, state.update + 1, carry), figures


def train_steps(
    model: nn.Module,
    task: Task,
    optimizer: optax.GradientTransformation,
    average: Callable[[Any], Any],
    state: TrainState,
    arrays: Any,
    indices: Int[Array, "k b"],
    windows: int = 1,
) -> tuple[TrainState, Figures]:
    """k updates in one compiled loop, which spares small networks an allocation of temporaries each. Figures have a leading axis k.

    In a task of streams each of them is read in so many `windows`, and then from its start again.
    """
    train = task.splits["train"]

    def body(state: TrainState, indices: Int[Array, " b"]) -> tuple[TrainState, Figures]:
        fresh = state.update % windows == 0
        return train_step(model, task, optimizer, state, train.batch(arrays, indices), average, fresh)

    return jax.lax.scan(body, state, indices)


def evaluate(
    model: nn.Module,
    task: Task,
    split: Split,
    params: Any,
    arrays: Any,
    indices: Int[Array, "c b"],
    weights: Float[Array, "c b"],
) -> tuple[Figures, Float[Array, ""]]:
    """Sums of the task's figures over the examples at `indices`, each times its weight, and the sum of the weights.

    In a task of streams each column of `indices` is one, and its state is carried from row to row.
    """

    def body(sums_and_carry: tuple[Figures, Any], chunk: tuple[Array, Array, Array]) -> tuple[tuple[Figures, Any], None]:
        (sums, carry), (rows, weight, first) = sums_and_carry, chunk
        batch = split.batch(arrays, rows)
        if task.streams:
            figures, carry = measure_from(model, task, params, batch, Start(carry, first))
        else:
            figures = measure(model, task, params, batch)
        return (jax.tree.map(lambda s, f: s + jnp.sum(f * weight), sums, figures), carry), None

    carry = blank_carry(model, split, params, arrays, indices.shape[1]) if task.streams else None
    figures = jax.eval_shape(lambda: measure(model, task, params, split.batch(arrays, indices[0])))
    zeros = jax.tree.map(lambda f: jnp.zeros((), f.dtype), figures)
    (sums, _), _ = jax.lax.scan(body, (zeros, carry), (indices, weights, jnp.arange(indices.shape[0]) == 0))
    return sums, jnp.sum(weights)
