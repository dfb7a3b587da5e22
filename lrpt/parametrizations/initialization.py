"""Initializations of all parameters, by name."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lrpt.tables import Table

Shape = tuple[int, ...]
Draw = Callable[[Array, Shape, float], Array]

glorot_uniform = nn.initializers.glorot_uniform()
"""Uniform in +-sqrt(6 / (fan_in + fan_out)) of each factor's own shape, as lowrank-gru draws R, L and W: R L does not match a dense U."""


def small_uniform(key: Array, shape: Shape, scale: float) -> Float[Array, "..."]:
    """Draw uniformly from +-0.01, as the original code of the GRUs initializes every diagonal."""
    return jax.random.uniform(key, shape, minval=-0.01, maxval=0.01)


def normal_or_orthogonal(key: Array, shape: Shape, scale: float) -> Float[Array, "..."]:
    """Draw a random orthogonal matrix if the shape is square, else normal numbers with a standard deviation of 0.01."""
    draw = nn.initializers.orthogonal() if shape[0] == shape[1] else nn.initializers.normal(0.01)
    return draw(key, shape)


@dataclass(frozen=True)
class Initialization:
    """Initializers of each kind of parameter. The last argument of an initializer is the scale that the user gives.

    Attributes:
      matrix: initializer of matrices, and of each factor of low-rank matrices.
      diagonal: initializer of diagonals.
      offset: initializer of biases, unless the cell initializes them to a constant other than zero.
      table: initializer of embeddings (None: as matrices).
      readout: initializer of the readout's matrix and bias. It gets the readout's input width instead of the scale (None: as matrices and
        biases).
      block: initializer of the matrices, diagonals and biases of a linear map if the cell says how many inputs the map has. It gets that
        number instead of the scale (None: as all others).
      has_scale: whether matrices depend on the scale.
    """

    matrix: Draw
    diagonal: Draw
    offset: Draw
    table: Draw | None = None
    readout: Draw | None = None
    block: Draw | None = None
    has_scale: bool = False

    def of_block(self, fan_in: int | None) -> "Initialization":
        """Return the initialization of a block of a linear map with `fan_in` inputs (None: of any other matrix or bias)."""
        if fan_in is None or self.block is None:
            return self
        block = self.block

        def draw(key: Array, shape: Shape, scale: float) -> Array:
            return block(key, shape, fan_in)

        return replace(self, matrix=draw, diagonal=draw, offset=draw)


def _uniform(key: Array, shape: Shape, scale: float) -> Array:
    return jax.random.uniform(key, shape, minval=-scale, maxval=scale)


def _normal(key: Array, shape: Shape, scale: float) -> Array:
    return scale * jax.random.normal(key, shape)


def _uniform_by_width(key: Array, shape: Shape, scale: float) -> Array:
    return _uniform(key, shape, shape[-1] ** -0.5)


def _uniform_by_given_width(key: Array, shape: Shape, width: float) -> Array:
    return _uniform(key, shape, width**-0.5)


def _standard_normal(key: Array, shape: Shape, scale: float) -> Array:
    return jax.random.normal(key, shape)


def _zeros(key: Array, shape: Shape, scale: float) -> Array:
    return jnp.zeros(shape)


INITIALIZATIONS: Table[Initialization] = Table(
    {
        "glorot": Initialization(lambda key, shape, _: glorot_uniform(key, shape), small_uniform, _zeros),
        "dl4mt": Initialization(normal_or_orthogonal, small_uniform, _zeros),
        "uniform": Initialization(_uniform, _uniform, _uniform, has_scale=True),
        "normal": Initialization(_normal, _normal, _zeros, has_scale=True),
        "lru": Initialization(
            _uniform_by_width,
            _uniform_by_width,
            _uniform_by_width,
            table=_standard_normal,
            readout=_uniform_by_given_width,
            block=_uniform_by_given_width,
        ),
    }
)
"""glorot: as in lowrank-gru.

dl4mt: as in dl4mt-lm (small_lm.py). Its products R L start near 1e-4 sqrt(d), which almost switches the recurrence off.

uniform: biases too, unless a cell initializes them to a constant other than zero. lowrank-lstm and the networks of Zilly et al. (2017) use
a range of 0.04.

normal: biases are initialized to zero.

lru (lattice recurrent units): as in chahuja/lru (model.py, with the defaults of PyTorch). All parameters of a cell, biases too, are uniform
in +-1/sqrt(n), where n is the output width of a matrix. Embeddings are standard normal. The readout is uniform in +-1/sqrt(n), where n is
its input width. Weights and biases of the first transition of an RHN are uniform in +-1/sqrt(2n), because it is one linear map of input
and state there, and PyTorch counts the inputs. That code has no low-rank matrices; here their factors are uniform in +-1/sqrt(n), where n
is the number of outputs of L and of inputs of R (the first transition of an RHN: in the range of its dense matrices).

The paper (Ahuja and Morency 2018) says Glorot. `glorot` draws each n x n block on its own, within +-sqrt(3/n), which is sqrt(3) times the
range of `lru`. The gates of an LRU are one matrix from 2n to 4n in that code, for which Glorot's rule gives the range of `lru`."""


def of_readout(name: str, scale: float, width: int) -> tuple[Callable[..., Array], Callable[..., Array]]:
    """Return the initializers (in Flax's sense) of the matrix and of the bias of a readout with inputs of the given width."""
    start = INITIALIZATIONS[name]

    def kernel(key: Array, shape: Shape, dtype: object = None, **_: object) -> Array:
        return start.readout(key, shape, width) if start.readout else start.matrix(key, shape, scale)

    def bias(key: Array, shape: Shape, dtype: object = None, **_: object) -> Array:
        return start.readout(key, shape, width) if start.readout else start.offset(key, shape, scale)

    return kernel, bias
