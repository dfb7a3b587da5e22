"""Gradient transformations that optax does not have: the rules of the low-rank passthrough experiments.

Parameters are told apart by name (`lrpt.parametrizations.Parameters`): `.../recurrent/update/left` is a factor, and
`.../recurrent_scale/update/left` the scales of its weight-normalized rows.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from lrpt.matrices import ROW_AXIS


class ShrinkState(NamedTuple):
    """How often `clip_by_norm_or_shrink` has met a gradient whose norm was not finite."""

    recoveries: Int[Array, ""]


def clip_by_norm_or_shrink(max_norm: float = 1.0, shrink: float = 0.1) -> optax.GradientTransformation:
    r"""Clips the gradient's norm; where that is not finite, pulls the parameters towards zero.

    .. math::
        g \leftarrow m\, g / \max(\|g\|, m) \quad\text{if } \|g\| \text{ is finite, else } g \leftarrow s\, \theta

    over all parameters together, m = `max_norm`, s = `shrink` (Pascanu et al. 2013; Miceli Barone 2018, section 3.5.1; lowrank-gru,
    RNN_memory.py). The shrink is not clipped, and goes on through the chain as a gradient does: accumulators after it stay finite. The
    original divides by max(||g||, m) alone, which is the same for m = 1, the only value it was run with.

    Raises:
      ValueError: `update` was called without the parameters.
    """

    def init(params: optax.Params) -> ShrinkState:
        del params
        return ShrinkState(jnp.zeros((), jnp.int32))

    def update(updates: optax.Updates, state: Any, params: optax.Params | None = None) -> tuple[optax.Updates, ShrinkState]:
        theta = _required(params, "clip_by_norm_or_shrink")
        norm = optax.tree.norm(updates)
        finite = jnp.isfinite(norm)
        updates = jax.tree.map(lambda g, p: jnp.where(finite, g / jnp.maximum(norm, max_norm) * max_norm, shrink * p), updates, theta)
        return updates, ShrinkState(jnp.where(finite, state.recoveries, optax.safe_increment(state.recoveries)))

    return optax.GradientTransformation(init, update)


def recoveries(opt_state: optax.OptState) -> Int[Array, ""] | None:
    """The recoveries that `clip_by_norm_or_shrink` has counted, anywhere in a chain's state; None where the chain has no such rule."""
    return optax.tree.get(opt_state, "recoveries")


def clip_all_but_first_seven(max_delta: float = 1.0) -> optax.GradientTransformation:
    """Clips every component to +-max_delta, except in the first seven tensors of the original's list (lowrank-gru, RNN_mnist.py).

    The script counts, whatever the model. Of a low-rank GRU, with or without diagonal, the first seven are R of the three gates, the three
    input matrices and L of the candidate; of a full GRU the three input and the three recurrent matrices and the bias of the candidate.
    A shared projection counts as those of the three gates; scales, which the original did not have, are clipped.
    """

    def clipped(params: optax.Params) -> Any:
        low_rank = any(_names(path)[-1] == "left" for path, _ in jax.tree_util.tree_leaves_with_path(params))
        seventh = ("recurrent", "candidate", "left") if low_rank else ("bias", "candidate")

        def is_clipped(path: Any, leaf: Any) -> bool:
            del leaf
            names = _names(path)
            first_six = names[-3:-2] == ("input",) or (names[-3:-2] == ("recurrent",) and names[-1] in ("right", "kernel"))
            return not first_six and names[-len(seventh) :] != seventh

        return jax.tree_util.tree_map_with_path(is_clipped, params)

    return optax.masked(optax.clip(max_delta), clipped)


def project_rows(max_norm: float = 10.0) -> optax.GradientTransformation:
    r"""Max-norm constraint: after the update, each row w of every matrix becomes :math:`w \min(1, m / \|w\|)`, m = `max_norm`.

    Rows are those of the papers' orientation (`lrpt.matrices.ROW_AXIS`); biases, diagonals, embeddings and initial states are left alone.
    Of rows g v / ||v|| under weight normalization both v and g are limited: |g| is the norm of the row that acts, and Miceli Barone 2018,
    section 3.5.1, does not say which of the two was meant. Must be the last element of a chain: it replaces the update by the one that
    leads to the projected parameters.

    Raises:
      ValueError: `update` was called without the parameters.
    """

    def update(updates: optax.Updates, state: Any, params: optax.Params | None = None) -> tuple[optax.Updates, Any]:
        def project(path: Any, step: Array, theta: Array) -> Array:
            excess = _excess(_names(path), theta + step, max_norm)
            return step if excess is None else jnp.where(excess > 1, (theta + step) / jnp.maximum(excess, 1) - theta, step)

        return jax.tree_util.tree_map_with_path(project, updates, _required(params, "project_rows")), state

    return optax.GradientTransformation(optax.init_empty_state, update)


def shrink_after(share: float) -> optax.GradientTransformation:
    r"""After the update, :math:`\theta \leftarrow (1 - w)\, \theta` with w = `share` (weight decay in the Torch code of Zilly et al. 2017).

    Must be the last element of a chain, as `project_rows`.

    Raises:
      ValueError: `update` was called without the parameters.
    """

    def update(updates: optax.Updates, state: Any, params: optax.Params | None = None) -> tuple[optax.Updates, Any]:
        theta = _required(params, "shrink_after")
        return jax.tree.map(lambda step, p: step - share * (p + step), updates, theta), state

    return optax.GradientTransformation(optax.init_empty_state, update)


def _excess(names: tuple[str, ...], value: Float[Array, "..."], max_norm: float) -> Float[Array, "..."] | None:
    """By how much each row of a parameter is too long (norm / max_norm), or None where it has no rows."""
    if names[-1] not in ROW_AXIS:
        return None
    if any(name.endswith("_scale") for name in names[:-1]):
        return jnp.abs(value) / max_norm
    return jnp.linalg.norm(value, axis=ROW_AXIS[names[-1]], keepdims=True) / max_norm


def _names(path: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(jax.tree_util.keystr((key,), simple=True) for key in path)


def _required(params: optax.Params | None, name: str) -> optax.Params:
    if params is None:
        raise ValueError(f"{name} needs the current parameters: call update(gradients, state, params)")
    return params
