"""Biases, as operators that ignore their input."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from lrpt.matrices.fitting import checked
from lrpt.matrices.operator import Work
from lrpt.matrices.rows import sum_of_rows
from lrpt.pytrees import register_fields


@checked
@register_fields
@dataclass(frozen=True, eq=False)
class Bias:
    """The constant map v -> bias. Only the batch shape of its input is used."""

    bias: Float[Array, " o"]

    def work(self, share: Any = 1) -> Work:
        return Work(0)

    def apply(self, v: Float[Array, "*b i"]) -> Float[Array, "*b o"]:
        return jnp.broadcast_to(self.bias, v.shape[:-1] + self.bias.shape)

    def gradient(self, v: Float[Array, "*b i"], cotangent: Float[Array, "*b o"]) -> "Bias":
        return Bias(sum_of_rows(cotangent))
