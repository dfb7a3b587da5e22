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


def binary_cross_entropy(logits: Float[Array, "*b k"], targets: Float[Array, "*b k"]) -> Float[Array, "*b"]:
    r"""-\sum_k [t_k \log \sigma(logit_k) + (1 - t_k) \log(1 - \sigma(logit_k))], in nats: k yes-or-no predictions as one."""
    return optax.sigmoid_binary_cross_entropy(logits, targets).sum(axis=-1)
