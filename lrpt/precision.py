"""Types of arrays, and of computations that need more precision, or complex numbers, than the stored arrays have.

`jax.numpy_dtype_promotion("strict")` refuses to mix types, also in `jnp.promote_types`. So every mixture that is meant is a cast here.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Inexact, Int, PyTree


def array_types(tree: PyTree, kind: Any = jnp.inexact) -> list[DTypeLike]:
    """Return the types of the arrays in a tree that are of a kind. Python numbers have no type of their own."""
    return [leaf.dtype for leaf in jax.tree.leaves(tree) if hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, kind)]


def promoted(one: DTypeLike, other: DTypeLike) -> DTypeLike:
    """Return the type to which JAX promotes two types."""
    with jax.numpy_dtype_promotion("standard"):
        return jnp.promote_types(one, other)


def at_least_single(x: Inexact[Array, "..."]) -> Inexact[Array, "..."]:
    """Cast numbers of half precision to single precision, for sums of many terms. Double precision and complex numbers stay."""
    return x.astype(promoted(x.dtype, jnp.float32))


def at_least_32_bits(numbers: Int[Array, "..."]) -> Int[Array, "..."]:
    """Cast integers of 8 or 16 bits, in which unsigned ones below 0 wrap and `jax.nn.one_hot` repeats the numbers of columns."""
    return jnp.asarray(numbers, promoted(jnp.result_type(numbers), jnp.int32))


def complex_if(x: Inexact[Array, "..."], v: Inexact[Array, "..."]) -> Inexact[Array, "..."]:
    """Return x as complex numbers if v holds such numbers, so that the two can be multiplied. Real numbers stay as they are."""
    return x.astype(promoted(x.dtype, v.dtype)) if jnp.iscomplexobj(v) else x
