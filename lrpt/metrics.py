"""What is reported beside the loss: one value for each prediction."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def accuracy(logits: Float[Array, "*b k"], targets: Int[Array, "*b"]) -> Float[Array, "*b"]:
    """1 where the most probable class is the target, else 0. Of equal logits the lowest class counts as the most probable."""
    return (jnp.argmax(logits, axis=-1) == targets).astype(jnp.float32)
