"""Post-training quantization: matrices and their factors as 8-bit integers with scales, everything else as it is.

Symmetric and without calibration data: w ~ q s, with q an integer from -127 to 127 and s one scale for each index of the shorter axis. So
each of the d rows of a factor (d, n) has its own scale, and so does each output of a readout (n, classes).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int8, PyTree

from lrpt.errors import UsageError

LARGEST = 127


class Quantized(NamedTuple):
    """A matrix as integers and scales; the scales broadcast against the integers."""

    values: Int8[np.ndarray, "i o"]
    scale: Float[np.ndarray, "..."]

    def dequantized(self) -> Float[Array, "i o"]:
        """Return q s in float32."""
        return jnp.asarray(self.values).astype(jnp.float32) * self.scale


def quantize(params: PyTree) -> PyTree:
    """Return parameters with each matrix as `Quantized`. Other arrays stay: biases, diagonals, states, blocks of structured matrices.

    With the scale s = max |w| / 127 along the longer axis, q = round(w / s). If that scale is (nearly) zero, s is 1.

    Raises:
      UsageError: a matrix has an entry that is not finite.
    """
    return jax.tree.map(lambda array: _quantized(np.asarray(array)) if np.ndim(array) == 2 else array, params)


def dequantize(params: PyTree) -> PyTree:
    """Return parameters in float32, of the tree that `quantize` was given."""
    return jax.tree.map(lambda node: node.dequantized() if _is_quantized(node) else node, params, is_leaf=_is_quantized)


def num_bytes(params: PyTree) -> int:
    """Return the bytes of all numbers, scales included."""
    return sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(params))


def _quantized(array: Float[np.ndarray, "i o"]) -> Quantized:
    if not np.isfinite(array).all():
        raise UsageError("a parameter is not finite, because training diverged: name a run that did not diverge")
    array = array.astype(np.float32)  # in half precision, w / s may exceed 127
    scale = np.abs(array).max(axis=int(np.argmax(array.shape)), keepdims=True, initial=0) / np.float32(LARGEST)
    scale = np.where(scale < np.finfo(np.float32).tiny, np.float32(1), scale)  # a subnormal scale is too coarse: w / s may exceed 127
    return Quantized(np.rint(array / scale).astype(np.int8), scale)


def _is_quantized(node: Any) -> bool:
    return isinstance(node, Quantized)
