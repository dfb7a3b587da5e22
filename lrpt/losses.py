"""Loss functions: one value per prediction, so that the caller decides what to average over."""

from typing import Literal, get_args

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from lrpt.errors import UsageError, check_choice
from lrpt.precision import at_least_32_bits

Over = Literal["sum", "mean"]

STEPS = "a task has reads='all' if there is a target for each step, and reads='last' if there is one for each example"
"""Advice if targets have other axes than predictions."""


def cross_entropy(logits: Float[Array, "*b k"], targets: Int[Array, "*b"]) -> Float[Array, "*b"]:
    r"""Compute the cross-entropy -\log softmax(logits)[target], in nats.

    Args:
      logits: unnormalized log-probabilities of the k classes.
      targets: the class of each prediction, below k.

    A target that is no class, 0 to k - 1, has the loss NaN.

    Raises:
      UsageError: the targets are not one integer for each prediction.
    """
    check_classes(logits, targets)
    targets = at_least_32_bits(targets)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, jnp.maximum(targets, 0))
    return _nan_if_no_class(losses, logits, targets)


def squared_error(predictions: Float[Array, "*b"], targets: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """Compute the squared error (prediction - target)^2, without the factor 1/2.

    Raises:
      UsageError: predictions and targets have different shapes.
    """
    _check_same_shape(predictions, targets)
    return optax.squared_error(predictions, targets)


def squared_hinge(scores: Float[Array, "*b k"], targets: Int[Array, "*b"], over: str = "sum") -> Float[Array, "*b"]:
    r"""Compute the squared hinge loss of each class against the rest (Tang 2013, L2-SVM).

    .. math::
        \sum_k \max(0, 1 - s_k y_k)^2, \quad y_k = 1 \text{ for the target, else } -1

    A target that is no class, 0 to k - 1, has the loss NaN.

    Args:
      scores: s, one for each class.
      targets: the class of each example.
      over: 'sum' over classes (Miceli Barone 2016, appendix A.1), or their 'mean' (l2hinge_classifier.py).

    Raises:
      UsageError: `over` is neither 'sum' nor 'mean', or the targets are not one integer for each example.
    """
    check_choice("over", over, get_args(Over))
    check_classes(scores, targets)
    targets = at_least_32_bits(targets)
    signs = 2 * jax.nn.one_hot(targets, scores.shape[-1], dtype=scores.dtype) - 1
    losses = getattr(jnp, over)(jnp.square(optax.losses.hinge_loss(scores, signs)), axis=-1)
    return _nan_if_no_class(losses, scores, targets)


def binary_cross_entropy(logits: Float[Array, "*b k"], targets: Float[Array, "*b k"]) -> Float[Array, "*b"]:
    r"""Compute the summed binary cross-entropy of k yes-or-no predictions, in nats.

    .. math::
        -\sum_k [t_k \log \sigma(z_k) + (1 - t_k) \log(1 - \sigma(z_k))]

    with the logits z and the targets t.

    Raises:
      UsageError: logits and targets have different shapes.
    """
    _check_same_shape(logits, targets)
    return optax.sigmoid_binary_cross_entropy(logits, targets).sum(axis=-1)


def _nan_if_no_class(losses: Float[Array, "*b"], scores: Float[Array, "*b k"], targets: Int[Array, "*b"]) -> Float[Array, "*b"]:
    """Return the losses, with NaN for targets that are no class. JAX would take another class."""
    return jnp.where((targets >= 0) & (targets < scores.shape[-1]), losses, jnp.nan)


def check_classes(scores: Array, targets: Array) -> None:
    """Raise a UsageError unless the targets are one integer for each prediction. Shapes and types are known under `jit`, too."""
    found, wanted, kind = jnp.shape(targets), jnp.shape(scores)[:-1], jnp.result_type(targets)
    if found == wanted and jnp.issubdtype(kind, jnp.integer):
        return
    one_hot = found == jnp.shape(scores)
    advice = "take targets.argmax(axis=-1) of one-hot targets" if one_hot else "" if found == wanted else STEPS
    says = f"targets are {kind} of shape {found}, and predictions have shape {jnp.shape(scores)}"
    raise UsageError(f"{says}: expected integers of shape {wanted}, one class for each prediction{advice and f'; {advice}'}")


def _check_same_shape(predictions: Array, targets: Array) -> None:
    """Raise a UsageError if the shapes differ. NumPy's rules would combine every target with every prediction in some of these cases."""
    found, wanted = jnp.shape(targets), jnp.shape(predictions)
    if found != wanted:
        advice = "take predictions[..., 0]" if (*found, 1) == wanted else STEPS
        raise UsageError(f"targets have shape {found}, and predictions have shape {wanted}: expected the same shape; {advice}")
