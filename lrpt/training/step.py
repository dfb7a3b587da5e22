"""One update and one evaluation, as pure functions."""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from lrpt.data.task import Example, Split, Task
from lrpt.optim import recoveries

Figures = dict[str, Array]


class TrainState(NamedTuple):
    """What an update changes: parameters, optimizer state, and the number of updates so far."""

    params: Any
    opt_state: Any
    update: Int[Array, ""]


def init_state(model: nn.Module, task: Task, optimizer: optax.GradientTransformation, seed: int) -> TrainState:
    """Parameters drawn from `seed`, and the optimizer's start."""
    train = task.splits["train"]

    @jax.jit
    def init(key: Array, arrays: Any) -> TrainState:
        example = train.batch(arrays, jnp.zeros((1,), jnp.int32))
        params = model.init(key, example.inputs, example.mask)["params"]
        return TrainState(params, optimizer.init(params), jnp.zeros((), jnp.int32))

    return init(jax.random.key(seed), train.arrays)


def measure(model: nn.Module, task: Task, params: Any, batch: Example) -> dict[str, Float[Array, " b"]]:
    """The task's figures, one value for each example of the batch."""
    return task.measure(model.apply({"params": params}, batch.inputs, batch.mask), batch)  # type: ignore[arg-type]


def train_step(
    model: nn.Module,
    task: Task,
    optimizer: optax.GradientTransformation,
    state: TrainState,
    batch: Example,
    average: Callable[[Any], Any] = lambda tree: tree,
) -> tuple[TrainState, Figures]:
    """One update by the gradient of the batch's mean loss.

    Args:
      average: takes the mean over devices that hold other parts of the batch; it is applied to gradients and figures.

    Returns:
      The new state, and the batch's figures before the update with the gradient's norm (before any clipping), as scalars.
    """

    def loss(params: Any) -> tuple[Array, Figures]:
        figures = jax.tree.map(jnp.mean, measure(model, task, params, batch))
        return figures["loss"], figures

    grads, figures = average(jax.grad(loss, has_aux=True)(state.params))
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    figures["gradient_norm"] = optax.tree.norm(grads)
    count = recoveries(opt_state)
    if count is not None:
        figures["recoveries"] = count
    return TrainState(optax.apply_updates(state.params, updates), opt_state, state.update + 1), figures


def train_steps(
    model: nn.Module,
    task: Task,
    optimizer: optax.GradientTransformation,
    average: Callable[[Any], Any],
    state: TrainState,
    arrays: Any,
    indices: Int[Array, "k b"],
) -> tuple[TrainState, Figures]:
    """k updates in one compiled loop, which spares small networks an allocation of temporaries each. Figures have a leading axis k."""
    train = task.splits["train"]

    def body(state: TrainState, indices: Int[Array, " b"]) -> tuple[TrainState, Figures]:
        return train_step(model, task, optimizer, state, train.batch(arrays, indices), average)

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
    """Sums of the task's figures over the examples at `indices`, each times its weight, and the sum of the weights."""

    def body(sums: Figures, chunk: tuple[Array, Array]) -> tuple[Figures, None]:
        figures = measure(model, task, params, split.batch(arrays, chunk[0]))
        return jax.tree.map(lambda s, f: s + jnp.sum(f * chunk[1]), sums, figures), None

    figures = jax.eval_shape(lambda: measure(model, task, params, split.batch(arrays, indices[0])))
    sums, _ = jax.lax.scan(body, jax.tree.map(lambda f: jnp.zeros((), f.dtype), figures), (indices, weights))
    return sums, jnp.sum(weights)
