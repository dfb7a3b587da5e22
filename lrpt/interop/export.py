"""Trained networks as serialized programs (StableHLO, by `jax.export`) with their weights inside.

Running one needs JAX only:

    program = jax.export.deserialize(Path("sequence.jax").read_bytes())
    predictions = program.call(inputs)             # any batch size and any length

    program = jax.export.deserialize(Path("step.jax").read_bytes())
    state = [numpy.zeros((1, *aval.shape[1:]), aval.dtype) for aval in program.in_avals[2:]]
    prediction, *state = program.call(x, True, *state)    # the first step; then False
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import export
from jaxtyping import Array, Bool, PyTree

from lrpt.compression.quantization import dequantize
from lrpt.errors import UsageError
from lrpt.networks.protocol import Start
from lrpt.scaling import UNSCALED, Scaling

PLATFORMS = ("cpu", "cuda", "tpu")


def portable(model: Any) -> nn.Module:
    """Return the network with the loop that programs of symbolic length can have: `lax.scan`, with matrices as they are stored."""
    settings = {"recurrence": "plain", "materialize": "never"}
    known = getattr(type(model.config), "short_names", {})
    return model.clone(config=replace(model.config, **{name: value for name, value in settings.items() if name in known}))


def sequence(
    model: nn.Module,
    variables: PyTree,
    step: Sequence[int],
    dtype: str,
    *,
    is_sequence: bool = True,
    scaling: Scaling = UNSCALED,
    platforms: Sequence[str] = PLATFORMS,
) -> export.Exported:
    """Return the program `inputs -> predictions` for any batch size and length.

    Args:
      model: the network.
      variables: its variables; matrices may be `Quantized`, and are stored so.
      step: shape of the inputs of one step, () for symbols.
      dtype: data type of the inputs.
      is_sequence: whether inputs have steps.
      scaling: is part of the program, which takes inputs and returns predictions in the units of the data.
      platforms: where the program runs.
    """
    shape = export.symbolic_shape("b, t" if is_sequence else "b", constraints=["b >= 1", *(["t >= 1"] if is_sequence else [])])
    network = portable(model)

    def predict(inputs: Array) -> Array:
        return scaling.restore(network.apply(dequantize(variables), scaling.standardize(inputs)))

    return export.export(jax.jit(predict), platforms=platforms)(jax.ShapeDtypeStruct((*shape, *step), dtype))


def one_step(
    model: nn.Module,
    variables: PyTree,
    step: Sequence[int],
    dtype: str,
    *,
    reads: str | None = None,
    scaling: Scaling = UNSCALED,
    platforms: Sequence[str] = PLATFORMS,
) -> export.Exported:
    """Return the program `(x, is_first, *state) -> (prediction, *state)` for any batch size. In the first step, the given state is ignored.

    Args:
      model: the network; it reads sequences.
      variables: its variables; matrices may be `Quantized`, and are stored so.
      step: shape of the inputs of one step, () for symbols.
      dtype: data type of the inputs.
      reads: 'last' or 'all', as the network (None: what its attribute `reads` says).
      scaling: is part of the program, which takes inputs and returns predictions in the units of the data.
      platforms: where the program runs.

    Raises:
      UsageError: `reads` is not given, and the network has no such attribute.
    """
    (rows,) = export.symbolic_shape("b", constraints=["b >= 1"])
    reads = getattr(model, "reads", None) if reads is None else reads
    if reads is None:
        raise UsageError(f"{type(model).__name__} has no attribute 'reads': give reads='last' or reads='all', as it predicts")
    network = portable(model)

    def advance(x: Array, start: Start | None) -> tuple[Array, PyTree]:
        return network.apply(dequantize(variables), scaling.standardize(x)[:, None], None, start, method="advance")

    x = jax.ShapeDtypeStruct((rows, *step), dtype)
    state = jax.eval_shape(lambda x: advance(x, None)[1], x)
    leaves, treedef = jax.tree.flatten(state)

    def program(x: Array, is_first: Bool[Array, ""], *state: Array) -> tuple[Array, ...]:
        predictions, carry = advance(x, Start(treedef.unflatten(state), is_first))
        return scaling.restore(predictions[:, 0] if reads == "all" else predictions), *jax.tree.leaves(carry)

    return export.export(jax.jit(program), platforms=platforms)(x, jax.ShapeDtypeStruct((), jnp.bool_), *leaves)
