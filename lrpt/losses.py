"""What training lowers: one value for each prediction, so that whoever calls decides what the mean is taken over."""

import optax
from jaxtyping import Array, Float, Int


def cross_entropy(logits: Float[Array, "*b k"], targets: Int[Array, "*b"]) -> Float[Array, "*b"]:
    r"""-\log softmax(logits)[target], in nats.

    Args:
      logits: unnormalized log-probabilities of the k classes.
      targets: the class of each prediction, below k.
    """
    return optax.softmax_cross_entropy_with_integer_labels(logits, targets)


def squared_error(predictions: Float[Array, "*b"], targets: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """(prediction - target)^2, without the factor 1/2."""
    return optax.squared_error(predictions, targets)
