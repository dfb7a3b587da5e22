"""Monte Carlo dropout: the mean of the predictions of many networks with different dropout masks."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from lrpt.errors import UsageError, check_choice
from lrpt.losses import cross_entropy
from lrpt.networks.protocol import Start
from lrpt.precision import at_least_single
from lrpt.tasks.order import evaluation_batches, evaluation_streams
from lrpt.tasks.task import Task
from lrpt.training.step import Variables, blank_carry


class MonteCarlo(NamedTuple):
    r"""Losses of several passes.

    Attributes:
      loss: mean over symbols of :math:`-\log \frac{1}{K} \sum_k p_k`, in nats: the loss of the mean probabilities.
      passes: nats per symbol of each pass that counts.
      left_out: number of passes that were drawn and rejected.
    """

    loss: float
    passes: tuple[float, ...]
    left_out: int


def monte_carlo(
    model: nn.Module,
    task: Task,
    variables: Variables,
    split: str = "test",
    *,
    passes: int = 20,
    rows: int = 1,
    seed: int = 0,
    worst: float = np.inf,
) -> MonteCarlo:
    """Compute the loss of the mean probabilities over many passes with different dropout masks.

    Each pass draws one set of masks, which is the same in all windows of a stream (Gal and Ghahramani 2016; Zilly et al. 2017,
    `evaluate_mc` in rhn_train.py, which makes a thousand passes in one row). Words must be dropped by type, because masks of positions
    would repeat in every window. In that code the word mask is a single number for all words of a pass, so some passes see no
    input. The code rejects passes with a perplexity above 500 and draws them again. Such passes do not occur here; `worst` rejects passes
    for other reasons.

    Args:
      model: the network; its configuration has the dropout probabilities.
      task: a task of texts.
      variables: trained parameters and other collections.
      split: 'train', 'valid' or 'test'.
      passes: K, the number of passes that count.
      rows: number of streams into which the split is cut, or number of examples in a batch; each row has its own masks.
      seed: seed of the masks.
      worst: largest loss of a pass in nats per symbol; passes above it are rejected and drawn again.

    Raises:
      UsageError: there is no such split, no pass, predictions are not of symbols, the network has no dropout, words are dropped by
        position, or 10 K passes were rejected.
    """
    _check(model, task, passes)
    check_choice("split", split, tuple(task.splits))
    examples = task.splits[split]
    arrange = evaluation_streams if task.streams else evaluation_batches
    indices, weights = arrange(examples.size, min(rows, examples.size))
    one = jax.jit(partial(_pass, model, task, split))  # variables and texts are arguments: a program would hold copies of them
    counted = weights[..., None] > 0
    total, losses, drawn = None, [], 0
    while len(losses) < passes:
        if drawn - len(losses) >= 10 * passes:
            raise UsageError(f"worst is {worst} nats, and {drawn - len(losses)} passes lost more: choose a higher one", code=1)
        found, valid = one(variables, examples.arrays, jax.random.fold_in(jax.random.key(seed), drawn), indices)
        log_p, valid = np.asarray(found, np.float64), np.asarray(valid) & counted
        drawn += 1
        loss = float(-log_p[valid].mean())
        if loss <= worst:
            losses.append(loss)
            total = log_p[valid] if total is None else np.logaddexp(total, log_p[valid])
    return MonteCarlo(float(np.log(passes) - np.mean(total)), tuple(losses), drawn - passes)  # type: ignore[arg-type]


def _check(model: nn.Module, task: Task, passes: int) -> None:
    if passes < 1:
        raise UsageError(f"passes is {passes}: expected 1 or more")
    if task.vocabulary is None or task.reads != "all":
        raise UsageError("only predictions of the next symbol of a text are averaged: name a run of a language model")
    dropout = getattr(getattr(model, "config", None), "dropout", None)
    if dropout is None or not dropout.drops:
        raise UsageError("the network drops nothing, so that every pass would be the same: name a run with dropout")
    if dropout.words and dropout.word_masks == "positions":
        raise UsageError("model.dropout.word_masks is positions, and masks are to hold for a whole text: train with types")


def _pass(
    model: nn.Module, task: Task, split: str, variables: Variables, arrays: PyTree, key: Array, indices: Int[Array, "c b"]
) -> tuple[Float[Array, "c b t"], Float[Array, "c b t"]]:
    """Compute the log-probabilities of all targets with the masks of a key, and the mask of targets that count."""
    examples = task.splits[split]
    advance: Callable[..., Any] = partial(model.apply, variables, train=True, method="advance", rngs={"dropout": key})

    def body(carry: PyTree, chunk: tuple[Array, Array]) -> tuple[Any, tuple[Array, Array]]:
        rows, first = chunk
        batch = examples.batch(arrays, rows)
        logits, after = advance(batch.inputs, batch.mask, Start(carry, first) if task.streams else None)
        log_p = -cross_entropy(at_least_single(logits), batch.targets)
        valid = jnp.ones_like(log_p, bool) if batch.mask is None else batch.mask
        return (after if task.streams else None), (log_p, valid)

    carry = blank_carry(model, examples, variables, arrays, indices.shape[1]) if task.streams else None
    return jax.lax.scan(body, carry, (indices, jnp.arange(indices.shape[0]) == 0))[1]
