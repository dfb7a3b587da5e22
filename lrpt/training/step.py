"""One update and one evaluation, as pure functions."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, UInt32

from lrpt.networks.layers import Layered
from lrpt.networks.protocol import SOWN, Start
from lrpt.optim import recoveries
from lrpt.tasks.task import Example, Split, Task

Figures = dict[str, Array]


class TrainState(NamedTuple):
    """What an update changes.

    Attributes:
      params: what gradients move.
      opt_state: the optimizer's.
      update: the number of updates so far.
      carry: in a task of streams, their states.
      collections: Flax collections that training changes without gradients, such as 'batch_stats'.
      key: decides, with the number of the update, every random number of training; it never changes.
    """

    params: Any
    opt_state: Any
    update: Int[Array, ""]
    carry: Any = None
    collections: Any = None
    key: UInt32[Array, " words"] | None = None

    @property
    def variables(self) -> dict[str, Any]:
        """What Flax calls so: all collections by name."""
        return {"params": self.params, **(self.collections or {})}


class Shares(NamedTuple):
    """How an update is shared by devices that hold other parts of the batch.

    Attributes:
      average: takes the mean over them.
      key: makes of one key another for each of them.
    """

    average: Callable[[Any], Any] = lambda tree: tree
    key: Callable[[Array], Array] = lambda key: key


ALONE = Shares()


class Pass(NamedTuple):
    """What comes of a batch.

    Attributes:
      figures: the task's, and those that the network sows; one value for each example.
      carry: the state after the last step.
      penalty: what the network adds to the mean loss in training.
      collections: those that training changes, as they are afterwards.
    """

    figures: Figures
    carry: Any
    penalty: Float[Array, ""]
    collections: Any


def init_state(model: nn.Module, task: Task, optimizer: optax.GradientTransformation, seed: int, batch_size: int = 1) -> TrainState:
    """Parameters drawn from `seed`, the optimizer's start, and a state for each row of the batch where the task is one of streams."""
    train = task.splits["train"]

    @jax.jit
    def init(key: Array, arrays: Any) -> TrainState:
        variables = model.init(key, _shortened(train.batch(arrays, jnp.zeros((1,), jnp.int32)).inputs))
        carry = blank_carry(model, train, variables, arrays, batch_size) if task.streams else None
        collections = {name: tree for name, tree in variables.items() if name not in ("params", *SOWN)}
        noise = jax.random.key_data(jax.random.fold_in(key, 1))
        params = variables["params"]
        return TrainState(params, optimizer.init(params), jnp.zeros((), jnp.int32), carry, collections or None, noise)

    return init(jax.random.key(seed), train.arrays)


def _shortened(inputs: Array) -> Array:
    """One step of a sequence: parameters do not depend on its length, and the time it takes to compile their start does."""
    is_sequence = inputs.ndim == 3 or jnp.issubdtype(inputs.dtype, jnp.integer)
    return inputs[:, :1] if is_sequence else inputs


def blank_carry(model: nn.Module, split: Split, variables: Any, arrays: Any, rows: int) -> Any:
    """Zeros in the shape of the state after a batch of so many rows."""

    def last() -> Any:
        example = split.batch(arrays, jnp.zeros((rows,), jnp.int32))
        return model.apply(variables, example.inputs, example.mask, method="advance")[1]  # type: ignore[index]

    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(last))


def forward(model: nn.Module, task: Task, variables: Any, batch: Example, start: Start | None = None, key: Array | None = None) -> Pass:
    """Predictions for a batch, and what the task says of them.

    Args:
      variables: parameters and other collections.
      start: in a task of streams, where the windows begin.
      key: in training, for everything random; without one the network is evaluated.
    """
    changing = [name for name in variables if name != "params"] if key is not None else []
    (predictions, carry), new = model.apply(  # type: ignore[misc]
        variables,
        batch.inputs,
        batch.mask,
        start,
        train=key is not None,
        method="advance",
        rngs=None if key is None else {"dropout": key},
        mutable=[*SOWN, *changing],
    )
    penalty, sown = (jax.tree_util.tree_leaves_with_path(new.get(name, {})) for name in SOWN)
    figures = task.measure(predictions, batch) | {str(path[-2].key): value for path, value in sown}  # pyright: ignore[reportAttributeAccessIssue]
    return Pass(figures, carry, sum((value for _, value in penalty), jnp.zeros(())), {name: new[name] for name in changing})


def train_step(
    model: nn.Module,
    task: Task,
    optimizer: optax.GradientTransformation,
    state: TrainState,
    batch: Example,
    shares: Shares = ALONE,
    fresh: Bool[Array, ""] | bool = False,
) -> tuple[TrainState, Figures]:
    """One update by the gradient of the batch's mean loss and of the network's penalties.

    Args:
      shares: how gradients, figures and collections are shared with other devices.
      fresh: in a task of streams, whether this update reads their first windows. No gradient goes back beyond a window.

    Returns:
      The new state, and the batch's figures before the update with the gradient's norm (before any clipping), as scalars; of a stack also
      those of `layer_norms`. 'loss' is without penalties.
    """
    start = Start(state.carry, jnp.asarray(fresh)) if task.streams else None
    key = jax.random.key(0) if state.key is None else jax.random.wrap_key_data(state.key)
    key = shares.key(jax.random.fold_in(key, state.update))

    def loss(params: Any) -> tuple[Array, tuple[Figures, Pass]]:
        result = forward(model, task, state.variables | {"params": params}, batch, start, key)
        figures = jax.tree.map(jnp.mean, result.figures)
        return figures["loss"] + result.penalty, (figures, result)

    grads, (figures, result) = jax.grad(loss, has_aux=True)(state.params)
    grads, figures, collections = shares.average((grads, figures, result.collections))
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    figures |= {"gradient_norm": optax.tree.norm(grads), **layer_norms(model, grads)}
    count = recoveries(opt_state)
    if count is not None:
        figures["recoveries"] = count
    carry = result.carry if task.streams else None
    params = optax.apply_updates(state.params, updates)
    return TrainState(params, opt_state, state.update + 1, carry, collections or state.collections, state.key), figures


def layer_norms(model: nn.Module, grads: Any) -> Figures:
    """Return 'gradient_norm_layer_1', ...: the norms of the gradients of all parameters of each layer of a stack, first to last."""
    layers = model.by_layer(grads) if isinstance(model, Layered) else {}
    return {f"gradient_norm_layer_{number + 1}": optax.tree.norm(layers[number]) for number in sorted(layers)}


def with_settings(collections: Any, values: Mapping[str, Array]) -> Any:
    """Collections in which the settings whose names end so, in whatever layer, have these values."""
    if not values:
        return collections

    def changed(path: Any, leaf: Array) -> Array:
        new = next((value for name, value in values.items() if path[-1].key.endswith(name)), leaf)
        return jnp.asarray(new, leaf.dtype)

    return {**collections, "settings": jax.tree_util.tree_map_with_path(changed, collections["settings"])}


def train_steps(
    model: nn.Module,
    task: Task,
    optimizer: Callable[[Int[Array, ""]], optax.GradientTransformation],
    state: TrainState,
    arrays: Any,
    indices: Int[Array, "k b"],
    shares: Shares = ALONE,
    windows: int = 1,
    settings: Callable[[Int[Array, ""]], Mapping[str, Array]] = lambda epoch: {},
) -> tuple[TrainState, Figures]:
    """k updates in one compiled loop, which spares small networks an allocation of temporaries each.

        update = jax.jit(lambda state, indices: train_steps(model, task, lambda made: optimizer, state, train.arrays, indices))

    Args:
      optimizer: a function of the number of updates made, on which its learning rate may depend.
      arrays: of the training split.
      indices: the examples of each update, as from `lrpt.tasks.order.batch_indices`.
      shares: how updates are shared with other devices.
      windows: updates in an epoch. In a task of streams the first of them reads the streams from their start.
      settings: a function of the number of epochs made: see `lrpt.networks.protocol.NetworkConfig.settings`.

    Returns:
      The new state, and the figures of every update, with a leading axis k.
    """
    train = task.splits["train"]

    def body(state: TrainState, indices: Int[Array, " b"]) -> tuple[TrainState, Figures]:
        fresh = state.update % windows == 0
        state = state._replace(collections=with_settings(state.collections, settings(state.update // windows)))
        return train_step(model, task, optimizer(state.update), state, train.batch(arrays, indices), shares, fresh)

    return jax.lax.scan(body, state, indices)


def evaluate(
    model: nn.Module,
    task: Task,
    split: Split,
    variables: Mapping[str, Any],
    arrays: Any,
    indices: Int[Array, "c b"],
    weights: Float[Array, "c b"],
) -> tuple[Figures, Float[Array, ""]]:
    """Sums of the figures over the examples at `indices`, each times its weight, and the sum of the weights.

    In a task of streams each column of `indices` is one, and its state is carried from row to row.
    """

    def body(sums_and_carry: tuple[Figures, Any], chunk: tuple[Array, Array, Array]) -> tuple[tuple[Figures, Any], None]:
        (sums, carry), (rows, weight, first) = sums_and_carry, chunk
        start = Start(carry, first) if task.streams else None
        result = forward(model, task, variables, split.batch(arrays, rows), start)
        added = jax.tree.map(lambda s, f: s + jnp.sum(f * weight), sums, result.figures)
        return (added, result.carry if task.streams else None), None

    carry = blank_carry(model, split, variables, arrays, indices.shape[1]) if task.streams else None
    figures = jax.eval_shape(lambda: forward(model, task, variables, split.batch(arrays, indices[0])).figures)
    zeros = jax.tree.map(lambda f: jnp.zeros((), f.dtype), figures)
    (sums, _), _ = jax.lax.scan(body, (zeros, carry), (indices, weights, jnp.arange(indices.shape[0]) == 0))
    return sums, jnp.sum(weights)
