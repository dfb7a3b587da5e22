"""Vectors of symbols: a table, or a product of two tables."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from lrpt.matrices import Dense, LowRank, Operator
from lrpt.networks.configuration import InitialConfig
from lrpt.parametrizations.initialization import INITIALIZATIONS
from lrpt.symbols import rows_of


class Embedding(nn.Module):
    """A vector for each symbol: a row of a table (V, e), or of a product of tables (V, d) and (d, e). Vectors are multiplied by it.

    Numbers that are no symbols have vectors of zeros.

    Attributes:
      symbols: V.
      width: e.
      rank: d; None for one table.
      initial: how the tables are drawn.
    """

    symbols: int
    width: int
    rank: int | None
    initial: InitialConfig

    def setup(self) -> None:
        initial, rank = self.initial, self.rank
        start = INITIALIZATIONS[initial.kind]

        def draw(key: Array, shape: tuple[int, int]) -> Array:
            return start.matrix(key, shape, initial.scale)

        def draw_table(key: Array, shape: tuple[int, int]) -> Array:
            return (start.table or start.matrix)(key, shape, initial.scale)

        self.table = self.param("table", draw_table, (self.symbols, rank or self.width))
        self.spread = self.param("spread", draw, (rank, self.width)) if rank else None

    def __call__(self, xs: Float[Array, "*b v"] | Int[Array, "*b"]) -> Float[Array, "*b e"]:
        rows = rows_of(self.table, xs) if jnp.issubdtype(xs.dtype, jnp.integer) else xs @ self.table
        return rows if self.spread is None else rows @ self.spread

    def transposed(self) -> Operator:
        """Return E^T, which maps an output to its inner products with the vectors of all symbols."""
        return Dense(self.table.T) if self.spread is None else LowRank(self.table.T, self.spread)
