"""Biases, as operators that ignore their input."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from lrpt.matrices.fitting import checked
from lrpt.matrices.operator import Work
from lrpt.matrices.rows import sum_of_rows
from lrpt.pytrees import register_fields
from lrpt.symbols import batch_shape, type_of_input


@checked
@register_fields
@dataclass(frozen=True, eq=False)
class Bias:
    """The constant map v -> bias, a term of a sum: `matrix.apply(v) + bias.apply(v)`. Only the batch shape of its input is used."""

    bias: Float[Array, " o"]

    def work(self, share: Any = 1) -> Work:
        return Work(0)

    def apply(self, v: type_of_input) -> Float[Array, "*b o"]:
        return jnp.broadcast_to(self.bias, batch_shape(v) + self.bias.shape)

    def gradient(self, v: type_of_input, cotangent: Float[Array, "*b o"]) -> "Bias":
        return Bias(sum_of_rows(cotangent))
