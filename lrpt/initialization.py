"""Where parameters start, by name."""

from collections.abc import Callable
from dataclasses import dataclass

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Shape = tuple[int, ...]
Draw = Callable[[Array, Shape, float], Array]

glorot_uniform = nn.initializers.glorot_uniform()
"""Uniform in +-sqrt(6 / (fan_in + fan_out)) of each factor's own shape, as lowrank-gru draws R, L and W: L R is not matched to a full U."""


def small_uniform(key: Array, shape: Shape) -> Float[Array, "..."]:
    """Uniform in +-0.01: the start of every diagonal in the original code of the GRUs."""
    return jax.random.uniform(key, shape, minval=-0.01, maxval=0.01)


def normal_or_orthogonal(key: Array, shape: Shape) -> Float[Array, "..."]:
    """A random orthogonal matrix where the shape is square, else normal with a standard deviation of 0.01."""
    draw = nn.initializers.orthogonal() if shape[0] == shape[1] else nn.initializers.normal(0.01)
    return draw(key, shape)


@dataclass(frozen=True)
class Initialization:
    """How each kind of parameter starts; the last argument of the functions is the scale that the user gives.

    Attributes:
      matrix: of matrices, and of each factor of low-rank ones.
      diagonal: of diagonals.
      offset: of biases which the cell does not start elsewhere than at zero.
      table: of embeddings (None: as matrices).
      readout: of the readout's matrix and bias, by the width that it reads instead of the scale (None: as matrices and biases).
    """

    matrix: Draw
    diagonal: Draw
    offset: Draw
    table: Draw | None = None
    readout: Draw | None = None


def _uniform(key: Array, shape: Shape, scale: float) -> Array:
    return jax.random.uniform(key, shape, minval=-scale, maxval=scale)


def _normal(key: Array, shape: Shape, scale: float) -> Array:
    return scale * jax.random.normal(key, shape)


def _uniform_by_width(key: Array, shape: Shape, scale: float) -> Array:
    return _uniform(key, shape, shape[-1] ** -0.5)


def _uniform_by_what_is_read(key: Array, shape: Shape, width: float) -> Array:
    return _uniform(key, shape, width**-0.5)


def _standard_normal(key: Array, shape: Shape, scale: float) -> Array:
    return jax.random.normal(key, shape)


def _zeros(key: Array, shape: Shape, scale: float) -> Array:
    return jnp.zeros(shape)


def _diagonal(key: Array, shape: Shape, scale: float) -> Array:
    return small_uniform(key, shape)


INITIALIZATIONS: dict[str, Initialization] = {
    "glorot": Initialization(lambda key, shape, _: glorot_uniform(key, shape), _diagonal, _zeros),
    "dl4mt": Initialization(lambda key, shape, _: normal_or_orthogonal(key, shape), _diagonal, _zeros),
    "uniform": Initialization(_uniform, _uniform, _uniform),
    "normal": Initialization(_normal, _normal, _zeros),
    "lru": Initialization(_uniform_by_width, _uniform_by_width, _uniform_by_width, _standard_normal, _uniform_by_what_is_read),
}
"""glorot: lowrank-gru. dl4mt: dl4mt-lm (small_lm.py), whose products L R start near 1e-4 sqrt(d), which almost switches the recurrence off.
uniform: biases too, but for those that a cell starts elsewhere than at zero; within 0.04 for lowrank-lstm and for the networks of Zilly et
al. (2017). normal: biases start at zero.

lru: chahuja/lru (model.py, and the defaults of PyTorch that it leaves in place). All of a cell is uniform in +-1/sqrt(n), biases too, where
n is the width of a matrix's outputs; embeddings are standard normal; the readout is uniform in +-1/sqrt(n) with n the width that it reads.
The paper (Ahuja and Morency 2018) says Glorot; for the gates of an LRU, one matrix from 2n to 4n in that code, both are the same. Factors
of low-rank matrices, which that code does not have, are uniform in +-1/sqrt(n) with n the outputs of L, and the inputs of R."""


def of_readout(name: str, scale: float, width: int) -> tuple[Callable[..., Array], Callable[..., Array]]:
    """What Flax calls the initializers of the matrix and of the bias of a layer that reads `width` numbers."""
    start = INITIALIZATIONS[name]

    def kernel(key: Array, shape: Shape, dtype: object = None, **_: object) -> Array:
        return start.readout(key, shape, width) if start.readout else start.matrix(key, shape, scale)

    def bias(key: Array, shape: Shape, dtype: object = None, **_: object) -> Array:
        return start.readout(key, shape, width) if start.readout else start.offset(key, shape, scale)

    return kernel, bias
