"""Sparse matrices whose places are drawn once and never change."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from lrpt.errors import UsageError
from lrpt.matrices.fitting import checked
from lrpt.matrices.operator import Work
from lrpt.matrices.rows import over_rows
from lrpt.pytrees import register_fields


@checked
@register_fields
@dataclass(frozen=True, eq=False)
class Sparse:
    """A matrix whose outputs each see k random inputs, which never change.

    Only the entries are parameters, k n_out. The places follow from `seed` and the sizes, so no file needs to hold them. Random masks that
    stay fixed: Jaeger 2001 (echo state networks), and Prabhu et al. 2018 for trained entries. Multiplications: k n_out.
    """

    slowness: ClassVar[float] = 11.0
    entries: Float[Array, "o k"]
    n_in: int = field(metadata={"static": True})
    seed: int = field(default=0, metadata={"static": True})

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_in, self.entries.shape[0]

    @property
    def places(self) -> Int[np.ndarray, "o k"]:
        """Return the inputs that each output sees, in increasing order."""
        return places(self.n_in, *self.entries.shape, self.seed)

    @property
    def degrees_of_freedom(self) -> int:
        """Return k n_out."""
        return self.entries.size

    @property
    def diagonal_freedom(self) -> int:
        """Return the number of places on the diagonal."""
        return int(np.sum(self.places == np.arange(self.entries.shape[0])[:, None]))

    @property
    def dense_products(self) -> int:
        return 0

    def work(self, share: Any = 1) -> Work:
        return Work(self.entries.size * share**2)

    def apply(self, v: Float[Array, "*b i"]) -> Float[Array, "*b o"]:
        return jnp.einsum("...ok,ok->...o", v[..., self.places], self.entries)

    def gradient(self, v: Float[Array, "*b i"], cotangent: Float[Array, "*b o"]) -> "Sparse":
        """Return the entries of the dense matrix's gradient: reverse mode would add up k n_out numbers of each row."""
        full = over_rows(v, cotangent)
        return Sparse(full[self.places, _outputs(self.entries)], self.n_in, self.seed)

    def to_dense(self) -> Float[Array, "i o"]:
        return jnp.zeros(self.shape, self.entries.dtype).at[self.places, _outputs(self.entries)].set(self.entries)


def _outputs(entries: Float[Array, "o k"]) -> Int[np.ndarray, "o 1"]:
    return np.arange(entries.shape[0], dtype=np.int32)[:, None]


@cache
def places(n_in: int, n_out: int, count: int, seed: int) -> Int[np.ndarray, "o k"]:
    """Draw `count` different inputs for each output, in increasing order.

    Raises:
      UsageError: there are fewer inputs.
    """
    if count > n_in:
        raise UsageError(f"Sparse has {count} entries for each output and n_in is {n_in}: give at most one entry for each input")
    rng = np.random.default_rng([seed, n_in, n_out, count])
    found = np.sort(np.argsort(rng.random((n_out, n_in)), axis=1)[:, :count], axis=1)
    return found.astype(np.int32)  # JAX may not take 64-bit indices
