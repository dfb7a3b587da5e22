"""What is reported beside the loss: values of single predictions, and what means over many examples amount to."""

import math
from collections.abc import Mapping

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

BETTER_LOW = {"loss", "piece_loss", "perplexity", "sentence_perplexity", "bits_per_character", "bits_per_bit", "output_distance"}
"""Figures of which less is better; of all others more is."""

NEITHER_BETTER = {"proportion", "active", "multiplications", "equivalent_size", "paper_equivalent_size", "autocorrelation"}
"""But for these, which say how much was computed."""


def accuracy(logits: Float[Array, "*b k"], targets: Int[Array, "*b"]) -> Float[Array, "*b"]:
    """1 where the most probable class is the target, else 0. Of equal logits the lowest class counts as the most probable."""
    return (jnp.argmax(logits, axis=-1) == targets).astype(jnp.float32)


def perplexity(nats: float) -> float:
    """e^nats: among how many equally likely symbols one would be as much in doubt. Infinite where it is no longer a float."""
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf


def bits(nats: float) -> float:
    """nats / ln 2."""
    return nats / math.log(2)


def corpus_figures(means: Mapping[str, float]) -> dict[str, float]:
    r"""Figures of a text in which every symbol weighs the same.

    With the sums L_i (nats) and the numbers n_i (symbols predicted) of its excerpts i, in a text of V symbols:

        loss                L = \sum_i L_i / \sum_i n_i
        perplexity          e^L, which is V where all symbols are predicted with the same probability
        bits_per_character  L / \ln 2

    Args:
      means: 'nats' and 'symbols', the means over i of L_i and n_i; the mean 'loss' of the excerpts is replaced, other figures stay.
    """
    loss = means["nats"] / means["symbols"]
    kept = {name: value for name, value in means.items() if name not in ("loss", "nats", "symbols")}
    return {"loss": loss, "perplexity": perplexity(loss), "bits_per_character": bits(loss), **kept}


def word_figures(means: Mapping[str, float]) -> dict[str, float]:
    """Those of `corpus_figures` that are said of words: 'loss', the nats for each word, and 'perplexity'."""
    return {name: value for name, value in corpus_figures(means).items() if name != "bits_per_character"}


def bit_figures(means: Mapping[str, float], period: int) -> dict[str, float]:
    r"""Figures of a text that is read bit by bit, in the terms of Table 3 of Jernite et al. (2017).

    With the sums L_i (nats) and the numbers n_i (bits predicted) of its excerpts i:

        loss                L = \sum_i L_i / \sum_i n_i
        bits_per_bit        L / \ln 2, at most 1 for a network that has learnt anything
        bits_per_character  `period` times as much

    Args:
      means: as in `corpus_figures`.
      period: bits from the start of a character to that of the next: 8, and those of a buffer.
    """
    figures = corpus_figures(means)
    per_bit = figures["bits_per_character"]
    kept = {name: value for name, value in figures.items() if name not in ("perplexity", "bits_per_character")}
    return {**kept, "bits_per_bit": per_bit, "bits_per_character": period * per_bit}


def sentence_figures(means: Mapping[str, float]) -> dict[str, float]:
    r"""Figures of a text in which every one of its S sentences weighs the same, beside those of `corpus_figures`.

        loss                 L = (1/S) \sum_i L_i / n_i
        sentence_perplexity  e^L, what Table 2 of Miceli Barone 2018 gives for GRUs (`pred_probs` in dl4mt-lm's `small_lm_dr.py`)

    A symbol of a short sentence thus weighs more than one of a long sentence. The rest of the literature gives `perplexity` and
    `bits_per_character` as `corpus_figures` defines them.

    Args:
      means: as there, and 'loss', the mean over i of L_i / n_i.
    """
    loss = means["loss"]
    return {"loss": loss, "sentence_perplexity": perplexity(loss), **{k: v for k, v in corpus_figures(means).items() if k != "loss"}}


def piece_figures(means: Mapping[str, float]) -> dict[str, float]:
    r"""Figures of pieces of music i, in which L_i nats are lost at n_i frames.

        loss        \sum_i L_i / \sum_i n_i, in which every frame weighs the same
        piece_loss  the mean over i of L_i / n_i, in which every piece does

    Args:
      means: 'nats', 'frames' and 'loss', the means over i of L_i, n_i and L_i / n_i; other figures stay.
    """
    kept = {name: value for name, value in means.items() if name not in ("loss", "nats", "frames")}
    return {"loss": means["nats"] / means["frames"], "piece_loss": means["loss"], **kept}
