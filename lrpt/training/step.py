"""One update and one evaluation, as pure functions."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree, UInt32

from lrpt.errors import UsageError
from lrpt.metrics import GRADIENT_NORM
from lrpt.networks.layers import Layered
from lrpt.networks.protocol import SOWN, Start
from lrpt.optim import OptimConfig, by_part, recoveries
from lrpt.optim.transforms import norm_of
from lrpt.parametrizations import FROZEN
from lrpt.tasks.task import Example, Split, Task
from lrpt.training.interface import Interface, have_steps

Metrics = dict[str, Array]
Variables = Mapping[str, Any]
"""Parameters and other collections of a network by name, as Flax reads them."""


class TrainState(NamedTuple):
    """State of training, which each update replaces.

    Attributes:
      params: trainable parameters.
      opt_state: state of the optimizer.
      update: number of updates so far.
      carry: states of the streams, in a task of streams.
      collections: Flax collections that training changes without gradients, such as 'batch_stats'.
      key: constant PRNG key. The key and the number of the update decide every random number of training.
    """

    params: Any
    opt_state: Any
    update: Int[Array, ""]
    carry: Any = None
    collections: Any = None
    key: UInt32[Array, " words"] | None = None

    @property
    def variables(self) -> dict[str, Any]:
        """Return all collections by name, which Flax calls variables."""
        return {"params": self.params, **(self.collections or {})}


class Collectives(NamedTuple):
    """Operations across the devices that share the batch of an update.

    Attributes:
      average: computes the mean over the devices.
      key: folds the device index into a PRNG key.
    """

    average: Callable[[Any], Any] = lambda tree: tree
    key: Callable[[Array], Array] = lambda key: key


ALONE = Collectives()


class Pass(NamedTuple):
    """Outputs of the forward pass.

    Attributes:
      metrics: metrics of the task and metrics that the network sows; one value for each example.
      carry: state after the last step.
      penalty: penalty that the network adds to the mean loss in training.
      collections: new values of the collections that training changes.
    """

    metrics: Metrics
    carry: Any
    penalty: Float[Array, ""]
    collections: Any


def init_state(model: nn.Module, task: Task, optimizer: optax.GradientTransformation, seed: int, batch_size: int = 1) -> TrainState:
    """Return the state before training: parameters drawn from `seed`, the optimizer's initial state, and the states of streams.

    Args:
      model: maps inputs (b, t, m), (b, m) or symbols (b, t) to predictions.
      task: what it is trained on.
      optimizer: the optimizer, whose state is initialized for the parameters.
      seed: seed of the parameters and of the noise in training.
      batch_size: streams of a batch, each with a state; other tasks ignore it.
    """
    train = task.splits["train"]

    @jax.jit
    def init(key: Array, arrays: PyTree) -> TrainState:
        variables = model.init(key, _shortened(train.batch(arrays, jnp.zeros((1,), jnp.int32)).inputs))
        carry = blank_carry(model, train, variables, arrays, batch_size) if task.streams else None
        return _first_state(variables, optimizer, carry, key)

    return init(jax.random.key(seed), train.arrays)


def state_shapes(model: nn.Module, interface: Interface, optimizer: optax.GradientTransformation, batch_size: int) -> TrainState:
    """Return the shapes and dtypes of `init_state`, without data and without computing anything.

    The state of a stream is taken to be as large after one step as after a window. A network of yours may differ.
    """

    def init(key: Array) -> TrainState:
        variables = model.init(key, interface.zeros(1))
        carry = model.apply(variables, interface.zeros(batch_size), method="advance")[1] if interface.streams else None
        return _first_state(variables, optimizer, carry, key)

    return jax.eval_shape(init, jax.random.key(0))


def _first_state(variables: Variables, optimizer: optax.GradientTransformation, carry: PyTree, key: Array) -> TrainState:
    collections = {name: tree for name, tree in variables.items() if name not in ("params", *SOWN)}
    noise, params = jax.random.key_data(jax.random.fold_in(key, 1)), variables["params"]
    return TrainState(params, optimizer.init(params), jnp.zeros((), jnp.int32), carry, collections or None, noise)


def evaluated_variables(optim: OptimConfig, state: TrainState) -> dict[str, Any]:
    """Return the variables that are evaluated and kept: the trained parameters, or those of `lrpt.optim.Recipe.evaluated`."""
    return {**state.variables, "params": optim.evaluated(state.opt_state, state.params)}


def _shortened(inputs: Array) -> Array:
    """Return the first step of sequences. Parameters do not depend on the length, but the time to compile their initialization does."""
    return inputs[:, :1] if have_steps(inputs) else inputs


def blank_carry(model: nn.Module, split: Split, variables: Variables, arrays: PyTree, rows: int) -> PyTree:
    """Return zeros in the shape of the state after a batch of `rows` rows."""

    def last() -> PyTree:
        example = split.batch(arrays, jnp.zeros((rows,), jnp.int32))
        return model.apply(variables, example.inputs, example.mask, method="advance")[1]

    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(last))


def forward(
    model: nn.Module, task: Task, variables: Variables, batch: Example, start: Start | None = None, key: Array | None = None
) -> Pass:
    """Compute predictions for a batch, and their metrics.

    Args:
      model: the network.
      task: the task, which computes the metrics.
      variables: parameters and other collections.
      batch: the examples.
      start: states at the start of the windows, in a task of streams.
      key: PRNG key for training; None evaluates the network.

    Raises:
      UsageError: a metric that the network sows has the name of another metric.
    """
    changing = [name for name in variables if name not in ("params", FROZEN)] if key is not None else []
    (predictions, carry), new = model.apply(
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
    metrics = task.metrics_of(predictions, batch)
    for path, value in sown:
        name = str(path[-2].key)
        if name in metrics:
            raise UsageError(f"the network sows the metric '{name}', which the task or another module has, too: give it another name")
        metrics[name] = value
    return Pass(metrics, carry, sum((value for _, value in penalty), jnp.zeros(())), {name: new[name] for name in changing})


def train_step(
    model: nn.Module,
    task: Task,
    optimizer: optax.GradientTransformation,
    state: TrainState,
    batch: Example,
    collectives: Collectives = ALONE,
    reset: Bool[Array, "*b"] | bool = False,
) -> tuple[TrainState, Metrics]:
    """Make one update by the gradient of the batch's mean loss and of the network's penalties.

    Args:
      model: the network.
      task: the task.
      optimizer: the optimizer.
      state: the state before the update.
      batch: the examples.
      collectives: operations that share gradients, metrics and collections with other devices.
      reset: whether the windows of all rows, or of each, follow the network's own initial state, in a task of streams. Gradients end at
        the start of a window.

    Returns:
      The new state, and the batch's metrics before the update, as scalars. The metrics include the norm of the gradient before any
      clipping, `layer_norms` for a stack, and `part_norms` for a network with schedulers. 'loss' is without penalties.

      If the optimizer recovers from gradients that are not finite, streams whose state is not finite go on from the network's initial
      state, and arrays of collections keep their last finite values.
    """
    recovers = recoveries(state.opt_state) is not None
    broken = _broken_rows(state.carry) if recovers and task.streams else False
    start = Start(state.carry, jnp.asarray(reset) | broken) if task.streams else None
    key = jax.random.key(0) if state.key is None else jax.random.wrap_key_data(state.key)
    key = collectives.key(jax.random.fold_in(key, state.update))

    def loss(params: PyTree) -> tuple[Array, tuple[Metrics, Pass]]:
        result = forward(model, task, state.variables | {"params": params}, batch, start, key)
        metrics = jax.tree.map(jnp.mean, result.metrics)
        return metrics["loss"] + result.penalty, (metrics, result)

    grads, (metrics, result) = jax.grad(loss, has_aux=True)(state.params)
    grads, metrics, collections = collectives.average((grads, metrics, result.collections))
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    metrics |= {GRADIENT_NORM: norm_of(grads), **layer_norms(model, grads), **part_norms(grads)}
    count = recoveries(opt_state)
    if count is not None:
        metrics["recoveries"] = count
    carry = result.carry if task.streams else None
    params = optax.apply_updates(state.params, updates)
    if recovers:
        collections = jax.tree.map(_if_finite, collections, {name: state.variables[name] for name in collections})
    kept = {**(state.collections or {}), **collections} or None  # what is frozen does not change
    return TrainState(params, opt_state, state.update + 1, carry, kept, state.key), metrics


def _broken_rows(carry: PyTree) -> Bool[Array, "*b"]:
    """Return which rows of a state have numbers that are not finite: False for a state without arrays."""
    finite = [jnp.isfinite(leaf).reshape(len(leaf), -1).all(axis=1) for leaf in jax.tree.leaves(carry)]
    return ~jnp.stack(finite).all(axis=0) if finite else jnp.asarray(False)


def _if_finite(new: Array, old: Array) -> Array:
    """Return the new array if all of its numbers are finite, else the old one."""
    return jnp.where(jnp.isfinite(new).all(), new, old)


def layer_norms(model: nn.Module, grads: PyTree) -> Metrics:
    """Return 'gradient_norm_layer_1', ...: the norms of the gradients of all parameters of each layer of a stack, first to last."""
    layers = model.by_layer(grads) if isinstance(model, Layered) else {}
    return {f"{GRADIENT_NORM}_layer_{number + 1}": norm_of(layers[number]) for number in sorted(layers)}


def part_norms(grads: PyTree) -> Metrics:
    """Return 'gradient_norm_scheduler' and 'gradient_norm_rest' if the network has schedulers."""
    parts = by_part(grads)
    return {f"{GRADIENT_NORM}_{name}": norm_of(leaves) for name, leaves in parts.items()} if len(parts) > 1 else {}


def with_settings(collections: PyTree, values: Mapping[str, Array]) -> PyTree:
    """Set settings in the collections. Each name in `values` stands for every setting whose name ends with it, in any layer."""
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
    arrays: PyTree,
    indices: Int[Array, "k b"],
    collectives: Collectives = ALONE,
    epoch: int = 1,
    settings: Callable[[Int[Array, ""], int], Mapping[str, Array]] = lambda update, epoch: {},
    reset_every: int | None = None,
) -> tuple[TrainState, Metrics]:
    """Make k updates in one compiled loop. Small networks save an allocation of temporaries in each update.

        update = jax.jit(lambda state, indices: train_steps(model, task, lambda made: optimizer, state, train.arrays, indices))

    Args:
      model: the network.
      task: the task.
      optimizer: function of the number of updates so far that returns the optimizer; its learning rate may depend on that number.
      state: the state before the updates.
      arrays: arrays of the training split.
      indices: examples of each update, as from `lrpt.tasks.order.batch_indices`.
      collectives: operations that share updates with other devices.
      epoch: number of updates in an epoch. In a task of streams, the first update of an epoch reads the streams from their start.
      settings: function of the number of updates so far, and of `epoch`: see `lrpt.networks.protocol.NetworkConfig.settings`.
      reset_every: updates after which a stream restarts from the initial state, one stream after the other; None: at epochs only.

    Returns:
      The new state, and the metrics of every update, with a leading axis k.
    """
    train = task.splits["train"]

    def body(state: TrainState, indices: Int[Array, " b"]) -> tuple[TrainState, Metrics]:
        reset = streams_to_reset(indices, state.update % epoch, epoch, train.size, reset_every)
        state = state._replace(collections=with_settings(state.collections, settings(state.update, epoch)))
        return train_step(model, task, optimizer(state.update), state, train.batch(arrays, indices), collectives, reset)

    return jax.lax.scan(body, state, indices)


def streams_to_reset(indices: Int[Array, " b"], place: Int[Array, ""], epoch: int, size: int, reset_every: int | None) -> Bool[Array, "*b"]:
    """Return which streams read a window from the initial state: all at the start of an epoch, and each once in `reset_every` updates.

    The starts of different streams are evenly spaced, so that every update has states of all ages up to `reset_every` windows. If a batch
    is so large that many examples are left over, the starts lie in the first part of each interval only.

    Args:
      indices: examples of the update. Row r of a batch reads part r of the examples, so `indices // epoch` are the rows.
      place: updates since the start of the epoch.
      epoch: number of updates in an epoch.
      size: number of examples.
      reset_every: updates between two starts of one stream; None for starts at epochs only.
    """
    if reset_every is None:
        return place == 0
    rows = size // epoch
    whole, rest = divmod(reset_every, rows)  # a row times `reset_every` may exceed 32 bits
    row = indices // epoch
    delays = row * whole + row * rest // rows
    return (place == 0) | ((place + delays) % reset_every == 0)


def evaluate(
    model: nn.Module,
    task: Task,
    split: Split,
    variables: Variables,
    arrays: PyTree,
    indices: Int[Array, "c b"],
    weights: Float[Array, "c b"],
) -> tuple[Metrics, Float[Array, ""]]:
    """Return the weighted sums of the metrics over the examples at `indices`, and the sum of the weights.

    Args:
      model: maps a batch of inputs to predictions.
      task: its metrics are summed.
      split: the examples.
      variables: parameters and other collections of the model.
      arrays: the arrays of the split, on the device.
      indices: examples by chunk and row. In a task of streams, each column is a stream, and its state is carried from row to row.
      weights: 1 for rows that count, 0 for padding.
    """

    def body(sums_and_carry: tuple[Metrics, Any], chunk: tuple[Array, Array, Array]) -> tuple[tuple[Metrics, PyTree], None]:
        (sums, carry), (rows, weight, first) = sums_and_carry, chunk
        start = Start(carry, first) if task.streams else None
        result = forward(model, task, variables, split.batch(arrays, rows), start)
        added = jax.tree.map(lambda s, f: s + jnp.sum(jnp.where(weight > 0, f * weight, 0)), sums, result.metrics)  # 0 NaN is NaN
        return (added, result.carry if task.streams else None), None

    carry = blank_carry(model, split, variables, arrays, indices.shape[1]) if task.streams else None
    metrics = jax.eval_shape(lambda: forward(model, task, variables, split.batch(arrays, indices[0])).metrics)
    zeros = jax.tree.map(lambda f: jnp.zeros((), jnp.result_type(f.dtype, weights.dtype)), metrics)
    (sums, _), _ = jax.lax.scan(body, (zeros, carry), (indices, weights, jnp.arange(indices.shape[0]) == 0))
    return sums, jnp.sum(weights)
