"""Weight normalization of any parametrization."""

from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lrpt.errors import UsageError
from lrpt.matrices import ROW_AXIS, Matrix, field_of
from lrpt.parametrizations.modules import FROZEN, Parametrization
from lrpt.precision import at_least_single
from lrpt.specs import steps_of


class WeightNorm(nn.Module):
    r"""Weight normalization: rows of the papers' matrices as :math:`w = g\, v / \|v\|` (Salimans and Kingma 2016, eq. 2).

    The wrapped parametrization owns the directions v. Rows of projections R have the fixed norm `projection_scale`, all other rows a
    trainable scale g. Diagonals are not normalized. The scales g are initialized to the norms of the rows as drawn, so that the network
    starts where the plain one does, except for R. Miceli Barone 2018, section 3.5.1, gives neither the initialization of g nor the norm of
    R, and its code is not published.

    A projection R that several gates share is normalized for each of them. So the fast loop applies it once for each gate, and not once for
    all of them.

    Attributes:
      inner: the wrapped parametrization.
      projection_scale: norm of the rows of projections R.
      check: a function that raises an error if the wrapped parametrization returned something else than matrices by name.

    Raises:
      UsageError: a matrix has no array in `lrpt.matrices.ROW_AXIS`, or has frozen arrays.
    """

    inner: Parametrization
    projection_scale: float = 1.0
    check: Callable[[Any], None] | None = None

    @nn.compact
    def __call__(self) -> dict[str, Matrix]:
        matrices = self.inner()
        if self.check is not None:
            self.check(matrices)
        if self.inner.variables.get(FROZEN):
            raise UsageError(f"weight_norm would train the norms of frozen matrices ({', '.join(matrices)}): choose no weight_norm")
        return {name: self.normalize(name, matrix) for name, matrix in matrices.items()}

    def normalize(self, name: str, matrix: Matrix) -> Matrix:
        """Return a matrix whose rows have the trainable norms g, or `projection_scale` in projections R.

        Args:
          name: name of the matrix, under which g is stored.
          matrix: the directions v.

        Raises:
          UsageError: the matrix has no array in `lrpt.matrices.ROW_AXIS`.
        """
        leaves, treedef = jax.tree_util.tree_flatten_with_path(matrix)
        names = names_of([path for path, _ in leaves])
        norms = {path: row_norms(array, ROW_AXIS[field_of(path)]) for path, array in leaves if field_of(path) in ROW_AXIS}
        if not norms:
            raise UsageError(
                f"weight_norm needs matrices with rows of their own, and '{name}' is a {type(matrix).__name__}: choose no weight_norm, "
                f"or matrices such as dense, low_rank, low_rank_plus_diagonal, block_diagonal or sparse"
            )
        start = {names[path]: jnp.squeeze(norm, ROW_AXIS[field_of(path)]) for path, norm in norms.items() if field_of(path) != "right"}
        scales = self.param(name, lambda _: start)

        def normalized(path: tuple[Any, ...], array: Array) -> Array:
            if path not in norms:
                return array
            trainable = names[path] in scales
            scale = jnp.expand_dims(scales[names[path]], ROW_AXIS[field_of(path)]) if trainable else self.projection_scale
            return (at_least_single(array * scale) / norms[path]).astype(array.dtype)

        return treedef.unflatten(normalized(path, array) for path, array in leaves)


def names_of(paths: Sequence[tuple[Any, ...]]) -> dict[tuple[Any, ...], str]:
    """Return the names of the stored arrays of a matrix: their fields, or whole paths if two arrays have the same field."""
    fields = [field_of(path) for path in paths]
    if len(set(fields)) == len(fields):
        return dict(zip(paths, fields, strict=True))
    return {path: "_".join(steps_of(path)) for path in paths}


def row_norms(factor: Float[Array, "..."], axis: int) -> Float[Array, "..."]:
    """Return Euclidean norms along `axis`, which is kept. A small constant keeps the gradient of an all-zero row finite.

    Norms of half-precision rows are in single precision, in which neither their squares overflow nor the constant is zero.
    """
    return jnp.sqrt(jnp.sum(jnp.square(at_least_single(factor)), axis, keepdims=True) + 1e-30)
