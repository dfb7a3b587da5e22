"""Metrics: values of single predictions, and summaries computed from their means over many examples."""

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from lrpt.errors import UsageError
from lrpt.losses import check_classes

GRADIENT_NORM = "gradient_norm"
"""Metric of an update, and how the names of the norms of parts of the gradient begin. It alone can overflow while the loss is finite."""

RESERVED = frozenset({"update", "split", "seconds", "learning_rate", "recoveries"})
"""Names in lines of metrics that are no metrics of a task, as are norms of gradients."""

LOWER_IS_BETTER = {
    "loss",
    "mae",
    "mse",
    "rmse",
    "nll",
    "cross_entropy",
    "error",
    "error_rate",
    "piece_loss",
    "perplexity",
    "sentence_perplexity",
    "bits_per_character",
    "bits_per_bit",
    "output_distance",
}
"""Metrics for which lower is better. Add the name of your own: `LOWER_IS_BETTER.add("pinball")`."""

HIGHER_IS_BETTER = {"accuracy", "agreement", "recall", "precision", "f1", "auc"}
"""Metrics for which higher is better. Add the name of your own."""

NEITHER_BETTER = {"proportion", "active", "multiplications", "equivalent_size", "paper_equivalent_size", "autocorrelation"}
"""Metrics that describe how much was computed; neither direction is better."""


def is_lower_better(name: str) -> bool:
    """Return whether lower values of a metric are better.

    Raises:
      UsageError: neither is better, or no table of this module has its direction.
    """
    if name in NEITHER_BETTER:
        raise UsageError(f"the metric {name!r} says how much was computed, and neither direction is better: choose another one")
    if name not in LOWER_IS_BETTER | HIGHER_IS_BETTER:
        raise UsageError(
            f"nothing says whether lower or higher values of the metric {name!r} are better: add its name to "
            f"lrpt.metrics.LOWER_IS_BETTER or HIGHER_IS_BETTER"
        )
    return name in LOWER_IS_BETTER


def accuracy(logits: Float[Array, "*b k"], targets: Int[Array, "*b"]) -> Float[Array, "*b"]:
    """Return 1 for predictions whose most probable class is the target, else 0. The lowest class wins ties.

    Raises:
      UsageError: the targets are not one integer for each prediction.
    """
    check_classes(logits, targets)
    best = jnp.argmax(logits, axis=-1)
    return (best == targets.astype(best.dtype)).astype(jnp.float32)


def perplexity(nats: float) -> float:
    """Return e^nats: the number of equally likely symbols with the same uncertainty. Return infinity if it overflows a float."""
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf


def bits(nats: float) -> float:
    """Convert nats to bits: nats / ln 2."""
    return nats / math.log(2)


def sums_over_steps(losses: Float[Array, "b t"], mask: Bool[Array, "b t"] | None, steps: str) -> dict[str, Float[Array, " b"]]:
    """Sum the losses of each sequence, in nats, over the steps that count.

    Args:
      losses: loss of each step.
      mask: true at steps that count; None if all do.
      steps: name of the number of steps in the result, such as 'symbols'.

    Returns:
      'loss', the mean over steps, 'nats', the sum, and the number of steps. All are 0 for a sequence without steps that count.
    """
    counted = jnp.ones_like(losses, bool) if mask is None else mask
    nats = jnp.sum(losses, axis=-1, where=counted)
    count = jnp.sum(counted, axis=-1, dtype=jnp.float32)
    with jax.numpy_dtype_promotion("standard"):  # counts are of single precision, whatever the losses are
        loss = nats / jnp.maximum(count, 1)
    return {"loss": loss, "nats": nats, steps: count}


def corpus_metrics(means: Mapping[str, float]) -> dict[str, float]:
    r"""Compute metrics of a text in which every symbol has the same weight.

    Excerpt i has a summed loss of L_i nats over n_i predicted symbols. V is the number of symbols in the vocabulary.

        loss                L = \sum_i L_i / \sum_i n_i
        perplexity          e^L, which is V if every symbol is predicted with the same probability
        bits_per_character  L / \ln 2

    Args:
      means: 'nats' and 'symbols', the means over i of L_i and n_i. The excerpts' mean 'loss' is replaced; other metrics are kept.
    """
    loss = means["nats"] / means["symbols"]
    kept = {name: value for name, value in means.items() if name not in ("loss", "nats", "symbols")}
    return {"loss": loss, "perplexity": perplexity(loss), "bits_per_character": bits(loss), **kept}


def word_metrics(means: Mapping[str, float]) -> dict[str, float]:
    """Compute metrics of a text of words: 'loss', in nats per word, and 'perplexity'. See `corpus_metrics`."""
    return {name: value for name, value in corpus_metrics(means).items() if name != "bits_per_character"}


def bit_metrics(means: Mapping[str, float], period: int) -> dict[str, float]:
    r"""Compute metrics of a text that is read bit by bit; bits per bit are those of Table 3 of Jernite et al. (2017).

    Excerpt i has a summed loss of L_i nats over n_i predicted bits.

        loss                L = \sum_i L_i / \sum_i n_i
        bits_per_bit        L / \ln 2, at most 1 for a network that has learnt anything
        bits_per_character  `period` times bits_per_bit

    Args:
      means: as in `corpus_metrics`.
      period: bits between the starts of two characters: 8, plus the bits of a buffer.
    """
    metrics = corpus_metrics(means)
    per_bit = metrics["bits_per_character"]
    kept = {name: value for name, value in metrics.items() if name not in ("perplexity", "bits_per_character")}
    return {**kept, "bits_per_bit": per_bit, "bits_per_character": period * per_bit}


def sentence_metrics(means: Mapping[str, float]) -> dict[str, float]:
    r"""Compute metrics of a text in which every one of its S sentences has the same weight, and those of `corpus_metrics`.

    Sentence i has a summed loss of L_i nats over n_i predicted symbols.

        loss                 L = (1/S) \sum_i L_i / n_i
        sentence_perplexity  e^L, as the code of Miceli Barone 2018 computes it for GRUs (`pred_probs` in dl4mt-lm's `small_lm_dr.py`)

    A symbol of a short sentence thus has more weight than a symbol of a long one. The text of that paper and the rest of the literature
    define `perplexity` and `bits_per_character` as `corpus_metrics` does.

    Args:
      means: as in `corpus_metrics`, and 'loss', the mean over i of L_i / n_i.
    """
    loss = means["loss"]
    return {"loss": loss, "sentence_perplexity": perplexity(loss), **{k: v for k, v in corpus_metrics(means).items() if k != "loss"}}


def piece_metrics(means: Mapping[str, float]) -> dict[str, float]:
    r"""Compute metrics of pieces of music. Piece i has a summed loss of L_i nats over n_i predicted frames.

        loss        \sum_i L_i / \sum_i n_i, with the same weight for every frame
        piece_loss  the mean over i of L_i / n_i, with the same weight for every piece

    Args:
      means: 'nats', 'frames' and 'loss', the means over i of L_i, n_i and L_i / n_i. Other metrics are kept.
    """
    kept = {name: value for name, value in means.items() if name not in ("loss", "nats", "frames")}
    return {"loss": means["nats"] / means["frames"], "piece_loss": means["loss"], **kept}
