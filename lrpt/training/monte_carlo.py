"""Evaluation with dropout on: the mean of many networks that differ in what is dropped."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lrpt.errors import UsageError
from lrpt.losses import cross_entropy
from lrpt.networks.protocol import Start
from lrpt.tasks.order import evaluation_batches, evaluation_streams
from lrpt.tasks.task import Task
from lrpt.training.step import blank_carry


class MonteCarlo(NamedTuple):
    r"""What comes of several passes.

    Attributes:
      loss: nats per symbol of the mean of their probabilities, :math:`-\log \frac{1}{K} \sum_k p_k`, in the mean over symbols.
      passes: nats per symbol of each pass that counts.
      left_out: passes that were drawn and do not count.
    """

    loss: float
    passes: tuple[float, ...]
    left_out: int


def monte_carlo(
    model: nn.Module,
    task: Task,
    variables: Any,
    split: str = "test",
    *,
    passes: int = 20,
    rows: int = 1,
    seed: int = 0,
    worst: float = np.inf,
) -> MonteCarlo:
    """Draws masks for the whole of a split, predicts every symbol with them, and takes the mean of the probabilities of many such passes.

    A pass has one set of masks, which are the same in all windows of a stream (Gal and Ghahramani 2016; Zilly et al. 2017,
    `evaluate_mc` in rhn_train.py, which has a thousand passes in one row). Words must be dropped by type then: the masks of positions
    would come again in every window. In that code the mask of words is a single number for all words of a pass, so that some passes see no
    input at all; those are told by a perplexity above 500, left out and drawn again. Here they do not arise; `worst` is for other reasons
    to leave a pass out.

    Args:
      model: whose configuration says what is dropped.
      task: of texts.
      variables: as trained.
      split: 'train', 'valid' or 'test'.
      passes: K, which count.
      rows: into how many streams, or batches of how many examples, the split is cut; each row has its own masks.
      seed: of the masks.
      worst: passes with more nats per symbol are left out, and others drawn in their place.

    Raises:
      UsageError: predictions are not of symbols, words are dropped by position, or ten times as many passes had to be left out.
    """
    _check(model, task, passes)
    examples = task.splits[split]
    dealt = evaluation_streams if task.streams else evaluation_batches
    indices, weights = dealt(examples.size, min(rows, examples.size))
    one = jax.jit(partial(_pass, model, task, split, variables))
    counted = weights[..., None] > 0
    total, losses, drawn = None, [], 0
    while len(losses) < passes:
        if drawn - len(losses) >= 10 * passes:
            raise UsageError(f"worst is {worst} nats, and {drawn - len(losses)} passes lost more: choose a higher one", code=1)
        found, valid = one(jax.random.fold_in(jax.random.key(seed), drawn), indices)
        log_p, valid = np.asarray(found, np.float64), np.asarray(valid) & counted
        drawn += 1
        loss = float(-log_p[valid].mean())
        if loss <= worst:
            losses.append(loss)
            total = log_p[valid] if total is None else np.logaddexp(total, log_p[valid])
    return MonteCarlo(float(np.log(passes) - np.mean(total)), tuple(losses), drawn - passes)  # type: ignore[arg-type]


def _check(model: Any, task: Task, passes: int) -> None:
    if passes < 1:
        raise UsageError(f"passes is {passes}: expected 1 or more")
    if task.vocabulary is None or task.reads != "all":
        raise UsageError("only predictions of the next symbol of a text are averaged: name a run of a language model")
    if not model.config.dropout.drops:
        raise UsageError("the network drops nothing, so that every pass would be the same: name a run with dropout")
    if model.config.dropout.words and model.config.dropout.word_masks == "positions":
        raise UsageError("model.dropout.word_masks is positions, and masks are to hold for a whole text: train with types")


def _pass(
    model: nn.Module, task: Task, split: str, variables: Any, key: Array, indices: Any
) -> tuple[Float[Array, "c b t"], Float[Array, "c b t"]]:
    """Log-probabilities of all targets with the masks of a key, and which of them count."""
    examples = task.splits[split]
    advance: Callable[..., Any] = partial(model.apply, variables, train=True, method="advance", rngs={"dropout": key})

    def body(carry: Any, chunk: tuple[Array, Array]) -> tuple[Any, tuple[Array, Array]]:
        rows, first = chunk
        batch = examples.batch(examples.arrays, rows)
        logits, after = advance(batch.inputs, batch.mask, Start(carry, first) if task.streams else None)
        log_p = -cross_entropy(logits.astype(jnp.float32), batch.targets)
        valid = jnp.ones_like(log_p, bool) if batch.mask is None else batch.mask
        return (after if task.streams else None), (log_p, valid)

    carry = blank_carry(model, examples, variables, examples.arrays, indices.shape[1]) if task.streams else None
    return jax.lax.scan(body, carry, (indices, jnp.arange(indices.shape[0]) == 0))[1]
