"""Interface between training and networks: a configuration that builds a Flax module. Any module with this interface can be trained."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.traverse_util import unflatten_dict
from jaxtyping import Array, Bool, Int, PyTree

from lrpt.errors import UsageError, is_integer
from lrpt.matrices.rows import by_row
from lrpt.precision import array_types
from lrpt.symbols import check_symbols

Reads = Literal["last", "all"]

SOWN = "penalties", "metrics"
"""Flax collections into which a network sows scalars that training adds to the loss, and metrics (b,)."""


class Start(NamedTuple):
    """Initial state of a sequence that continues another one.

        predictions, carry = model.apply(variables, first, method="advance")
        predictions, carry = model.apply(variables, second, None, Start(carry), method="advance")

    Attributes:
      carry: final state of the other sequence, each leaf (b, ...), also as Orbax and msgpack restore it without a target.
      reset: whether the network starts from its own initial state instead, for all rows or for each.
    """

    carry: Any
    reset: Bool[Array, "*b"] | bool = False

    def choose_state(self, initial: Any, rows: int) -> Any:
        """Return the state to start from, given the network's own initial state and the number of rows of the inputs.

        Raises:
          UsageError: the carry is no state of this network and number of rows, or is complex and the network's is real; `reset` has
            another number of rows.
        """
        carry = as_state_if_named_alike(self.carry, initial)
        given, own = (jax.tree.map(jnp.shape, state) for state in (carry, initial))
        if given != own or jax.tree.structure(carry) != jax.tree.structure(initial):  # a tuple equals a named tuple
            raise UsageError(_about_shapes(carry, initial))
        for leaf, its in zip(jax.tree.leaves(carry), jax.tree.leaves(initial), strict=True):
            if jnp.iscomplexobj(leaf) and not jnp.iscomplexobj(its):
                raise UsageError(f"the state to start from is {leaf.dtype}: expected {its.dtype}, as `advance` returned it")
        reset = jnp.asarray(self.reset)
        if reset.shape not in ((), (rows,)):
            raise UsageError(f"reset has shape {reset.shape}: expected {(rows,)}, one entry for each row, or one for all, ()")

        def chosen(own: Array, other: Array) -> Array:
            return jnp.where(by_row(reset, other), own, other)

        return jax.tree.map(chosen, initial, carry)


def _about_shapes(carry: PyTree, initial: Any) -> str:
    """Return the message for a state of other shapes than the network's own: that its number of rows differs, or all shapes."""
    given, own = (jax.tree.map(jnp.shape, state) for state in (carry, initial))
    pairs = [*zip(map(jnp.shape, jax.tree.leaves(carry)), map(jnp.shape, jax.tree.leaves(initial)), strict=False)]
    alike = jax.tree.structure(carry) == jax.tree.structure(initial) and all(one and one[1:] == other[1:] for one, other in pairs)
    if alike and len({one[0] for one, _ in pairs}) == 1:
        return f"the state has {pairs[0][0][0]} rows and the inputs have {pairs[0][1][0]}: give a state with one row for each sequence"
    return f"the state to start from has shapes {given}: expected {own}, as `advance` returned it for as many rows"


def start_from(start: Start | None, initial: Any, rows: int) -> Any:
    """Return the state of `rows` rows to start from: `start`, or the network's own initial state if it is None.

    Raises:
      UsageError: `start` is no `Start`, or its carry is no state of this network and number of rows.
    """
    if start is None:
        return initial
    if not isinstance(start, Start):
        raise UsageError(f"the state to start from is a {type(start).__name__}: give lrpt.Start(carry)")
    return start.choose_state(initial, rows)


def check_rows(rows: object) -> None:
    """Raise a UsageError unless the number of rows of a state is an integer, 1 or more."""
    if not is_integer(rows) or rows < 1:  # type: ignore[operator]
        given = f"an array of shape {jnp.shape(rows)}" if hasattr(rows, "shape") else repr(rows)  # type: ignore[arg-type]
        raise UsageError(f"rows is {given}: expected the number of sequences, an integer, 1 or more")


def check_inputs(inputs: Any, mask: Any, input_size: int, reads: Reads = "all", *, symbols_only: bool = False) -> None:
    """Check the inputs and the mask of a network, which are batch-major. The loop over time, which also checks them, sees them time-major.

    Args:
      inputs: symbols, (b, t), or vectors, (b, t, m).
      mask: padding mask, (b, t), or None.
      input_size: m, or the number of symbols.
      reads: whether the network reads the last output, which needs a step, or all of them.
      symbols_only: whether the network takes no vectors.

    Raises:
      UsageError: one of them is no array, or does not have this shape; a symbol is too large; there is no step to read.
    """
    for name, given in {"inputs": inputs, "mask": mask}.items():
        if isinstance(given, list | tuple):
            raise UsageError(f"{name} is a {type(given).__name__}: give an array, such as jnp.asarray({name})")
    is_symbols, is_complex = (jnp.issubdtype(inputs.dtype, kind) for kind in (jnp.integer, jnp.complexfloating))
    if is_complex or inputs.ndim != 3 - is_symbols or (not is_symbols and (symbols_only or inputs.shape[2] != input_size)):
        vectors = "" if symbols_only else f"floats of shape (batch, time, {input_size}), or "
        raise UsageError(
            f"inputs are {inputs.dtype} of shape {inputs.shape}: expected {vectors}integers of shape (batch, time) for symbols below "
            f"{input_size}{'; give real and imaginary parts as components of their own' if is_complex else ''}"
        )
    if reads == "last" and inputs.shape[1] == 0:
        raise UsageError(f"inputs have shape {inputs.shape}, so there is no last step: give one step or more")
    check_symbols(inputs, input_size)
    if mask is not None and mask.shape != inputs.shape[:2]:
        raise UsageError(f"the mask has shape {mask.shape}: expected {inputs.shape[:2]}, batch and time of the inputs")


def params_of(variables: Mapping[str, Any]) -> Any:
    """Return the parameters among a network's variables.

    Raises:
      UsageError: there are none.
    """
    if "params" not in variables:
        raise UsageError("the variables have no collection 'params' of this network: give those that `init` of this model returned")
    return variables["params"]


def as_stored(state: PyTree) -> Any:
    """Return a state as parameters store it: nested dicts of arrays, by the names of fields and the numbers of entries of tuples.

    The path of such an array consists of strings, as functions of Flax and optax expect. A state that is one array stays an array.
    """
    named = _by_names(state)
    return named[()] if () in named else unflatten_dict(named)


def as_state(row: Any, own: Any) -> Any:
    """Return a stored state in the structure of the cell's own. It may have any containers, such as those that Orbax and msgpack restore.

    Raises:
      UsageError: its arrays do not have the names that `as_stored` gives to those of the cell's own state.
    """
    if jax.tree.structure(row) == jax.tree.structure(own):
        return row
    given, needed = _by_names(row), _by_names(own)
    if given.keys() != needed.keys():
        found, expected = (", ".join("/".join(names) or "one without a name" for names in tree) or "none" for tree in (given, needed))
        raise UsageError(f"the stored state has the arrays {found}: expected {expected}, as the network of this cell has them")
    return jax.tree.unflatten(jax.tree.structure(own), [given[names] for names in needed])


def as_state_if_named_alike(row: Any, own: Any) -> Any:
    """Return what `as_state` does, or the state as it is if its names or numbers of arrays are not those of the cell's own."""
    try:
        return as_state(row, own)
    except UsageError:
        return row


def _by_names(state: PyTree) -> dict[tuple[str, ...], Any]:
    """Return the arrays of a state by the keys of their paths as strings, in the order of the tree."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {tuple(jax.tree_util.keystr((key,), simple=True) for key in path): leaf for path, leaf in leaves}


def in_precision_of(arrays: Sequence[Array | complex], state: PyTree) -> Any:
    """Return `state` with its real numbers cast to the data type to which JAX promotes the real arrays among `arrays`, one or more.

    Python numbers among `arrays`, which a matrix of a user's may hold, have no data type of their own.
    """
    common = jnp.result_type(*array_types(arrays, jnp.floating))
    return jax.tree.map(lambda h: h.astype(common) if jnp.issubdtype(h.dtype, jnp.floating) else h, state)


class NetworkConfig(Protocol):
    """A frozen dataclass that describes a network.

    The module that it builds has `advance(inputs, mask, start, *, train) -> (predictions, carry)` and `__call__(inputs, mask)` with the
    predictions only. In training it may use the random numbers 'dropout', change its own collections (such as 'batch_stats'), and sow
    'penalties' and 'metrics' (`SOWN`).

    Estimates of the cost of a run also read the following fields. A configuration need not have them: the default stands for a missing
    field, or for one of another type.

    - `size`, an integer, is the width of the state (default: 0, which costs nothing).
    - `layers` and `depth`, integers, are the numbers of layers and of transitions in each of them (default: 1).
    - `matrices` has the storage of the recurrent matrices, with the fields of a `StorageConfig` (default: dense).
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def label(self) -> str:
        """Return a short name for tables and plots."""
        ...

    @property
    def without_initialization(self) -> Self:
        """Return the configuration with defaults for the settings that only affect the initialization. Programs depend on the others."""
        ...

    @property
    def needs_gpu(self) -> bool:
        """Return whether the network runs on a GPU only."""
        ...

    def settings(self, update: Int[Array, ""], epoch: int) -> Mapping[str, Array]:
        """Return values for the variables of the collection 'settings' in one update. A key stands for every name that ends with it.

        Args:
          update: number of updates so far.
          epoch: number of updates in an epoch.
        """
        ...

    def settled(self, update: int, epoch: int) -> bool:
        """Return whether the settings have their final values. Training selects the best state among such states only."""
        ...

    def summarize(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Return the metrics of a task, with the network's own metrics added."""
        ...

    def build(self, input_size: int, output_size: int, reads: Reads, axis_name: str | None = None) -> nn.Module:
        """Return the network for a task.

        Args:
          input_size: width of the inputs, or the number of symbols.
          output_size: width of the predictions.
          reads: 'last' for one prediction after the last step, 'all' for one at each step.
          axis_name: mapped axis over which batches are sharded, if there is one.
        """
        ...

    def parameter_shapes(self, input_size: int, output_size: int) -> Any:
        """Return the shapes of the parameters.

        Raises:
          UsageError: the settings contradict each other.
        """
        ...


def integer_of(config: Any, name: str, default: int) -> int:
    """Return a field of a configuration, or the default if it has no such field or no integer in it."""
    value = getattr(config, name, default)
    return value if is_integer(value) else default


def shapes_of(module: nn.Module, example: jax.ShapeDtypeStruct) -> Any:
    """Return the shapes of a module's parameters for an input of this shape. Nothing is computed, and JAX does not look for devices."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    return jax.eval_shape(module.init, key, example)["params"]


class NetworkDefaults:
    """Defaults of a `NetworkConfig`: the network runs on any device, is the same in all epochs, and adds no metrics."""

    @property
    def needs_gpu(self) -> bool:
        return False

    def settings(self, update: Int[Array, ""], epoch: int) -> dict[str, Array]:
        return {}

    def settled(self, update: int, epoch: int) -> bool:
        return True

    def summarize(self, metrics: Mapping[str, float]) -> dict[str, float]:
        return dict(metrics)
