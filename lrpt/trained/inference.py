"""Predictions of a trained network: for whole sequences, and for one step after the other."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from lrpt.errors import UsageError
from lrpt.networks.protocol import Start
from lrpt.networks.sampling import check_no_text
from lrpt.symbols import check_symbols
from lrpt.training.interface import Interface
from lrpt.training.step import Variables


class Inference:
    """Compiled functions of the variables and the inputs of a network. They are compiled once for each shape of inputs.

    Args:
      model: the network.
      interface: its interface to the task.
    """

    def __init__(self, model: nn.Module, interface: Interface) -> None:
        self.model, self.interface = model, interface
        self._predict, self._step = jax.jit(self._predictions), jax.jit(self._predictions_of_step)

    def predict(self, variables: Variables, inputs: ArrayLike, mask: ArrayLike | None) -> Array:
        """Return predictions for whole sequences: see `lrpt.trained.loading.Loaded.predict`."""
        return self._predict(variables, self.checked(inputs), None if mask is None else jnp.asarray(mask))

    def checked(self, inputs: ArrayLike) -> Array:
        """Return whole sequences as the network reads them, but for their scaling.

        Raises:
          UsageError: they are text, have another shape than those of the task, or hold a symbol that is not one of the network's.
        """
        check_no_text(inputs, "inputs are text: encode them, as in trained.vocabulary.encode(text)[None]")
        try:
            given = jnp.asarray(inputs)
        except ValueError as error:  # NumPy calls it an inhomogeneous shape
            raise UsageError("inputs have several lengths: pad them to one length, and give a mask (batch, time)") from error
        self._check_vectors(given)
        given = self._as_floats(given)
        check_symbols(given, self.interface.input_size)
        return given

    def _check_vectors(self, inputs: Array) -> None:
        """Raise a UsageError if a network reads sequences of vectors, and inputs have another shape.

        The network itself does not know what its task has, and would offer symbols too.
        """
        own = self.interface
        if not (own.is_sequence and jnp.issubdtype(own.dtype, jnp.floating)) or (inputs.ndim >= 2 and inputs.shape[2:] == own.step):
            return
        wanted = ", ".join(map(str, ("batch", "time", *own.step)))
        raise UsageError(f"inputs are {inputs.dtype} of shape {inputs.shape}: expected numbers of shape ({wanted})")

    def start(self, variables: Variables, rows: int) -> Start:
        """Return the state before the first step of `rows` sequences."""
        shapes = jax.eval_shape(lambda xs: self._advance(variables, xs, None)[1], self.interface.inputs(rows))
        return Start(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes), jnp.asarray(True))

    def step(self, variables: Variables, state: Start, x: ArrayLike) -> tuple[Start, Array]:
        """Read one step of each sequence: see `lrpt.trained.loading.Loaded.step`.

        Raises:
          UsageError: `state` is not what `start` or `step` returned; `x` is text, has the shape of sequences, or holds a
            symbol that is not one of the network's.
        """
        _check_state(state)
        check_no_text(x, "x is text: encode it, and give one number for each sequence, as in trained.vocabulary.encode('a')")
        x = self._as_floats(jnp.asarray(x))
        of_symbols = jnp.issubdtype(x.dtype, jnp.integer)
        if x.ndim != (1 if of_symbols else 2):
            shape = "(sequences,) of symbols" if of_symbols else "(sequences, features)"
            raise UsageError(f"x has shape {x.shape}: expected one step of each sequence, {shape}")
        check_symbols(x, self.interface.input_size)
        return self._step(variables, state, x)

    def _as_floats(self, given: Array) -> Array:
        """Return integers as floats if the network reads vectors: they are numbers, not symbols."""
        reads_vectors = jnp.issubdtype(self.interface.dtype, jnp.floating)
        return given.astype(self.interface.dtype) if reads_vectors and not jnp.issubdtype(given.dtype, jnp.inexact) else given

    def _predictions(self, variables: Variables, inputs: Array, mask: Array | None) -> Array:
        scaling = self.interface.scaling
        return scaling.restore(self.model.apply(variables, scaling.standardize(inputs), mask))

    def _predictions_of_step(self, variables: Variables, state: Start, x: Array) -> tuple[Start, Array]:
        scaling = self.interface.scaling
        predictions, carry = self._advance(variables, scaling.standardize(x)[:, None], state)
        return Start(carry, jnp.asarray(False)), scaling.restore(predictions[:, 0] if self.interface.reads == "all" else predictions)

    def _advance(self, variables: Variables, inputs: Array, start: Start | None) -> tuple[Array, PyTree]:
        return self.model.apply(variables, inputs, None, start, method="advance")


def _check_state(state: Any) -> None:
    """Raise a UsageError if the state of a step is an array, such as the input in its place, or a carry alone."""
    if not isinstance(state, Start):
        given = f"an array of shape {state.shape}" if hasattr(state, "shape") else f"of type {type(state).__name__}"
        raise UsageError(f"state is {given}: give what start() or step() returned, as in state, y = trained.step(state, x)")
