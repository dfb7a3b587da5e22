"""Types of computations that need more precision, or complex numbers, than the stored arrays have.

`jax.numpy_dtype_promotion("strict")` refuses to mix types, also in `jnp.promote_types`. So every mixture that is meant is a cast here.
"""

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Inexact


def at_least_single(dtype: DTypeLike) -> DTypeLike:
    """Return single precision for a type of half precision, and any other type of real or complex numbers as it is."""
    return _promoted(dtype, jnp.float32)


def complex_if(x: Inexact[Array, "..."], v: Inexact[Array, "..."]) -> Inexact[Array, "..."]:
    """Return x as complex numbers if v holds such numbers, so that the two can be multiplied. Real numbers stay as they are."""
    return x.astype(_promoted(x.dtype, v.dtype)) if jnp.iscomplexobj(v) else x


def _promoted(one: DTypeLike, other: DTypeLike) -> DTypeLike:
    with jax.numpy_dtype_promotion("standard"):
        return jnp.promote_types(one, other)
