"""Gradient transformations of the low-rank passthrough experiments that optax does not have.

Parameters are recognized by name (`lrpt.parametrizations.Parameters`): `.../recurrent/update/left` is a low-rank factor, and
`.../recurrent_scale/update/left` contains the scales of its weight-normalized rows. In a `lrpt.interop.linen.Linear`, these are
`.../matrix/left` and `.../scale/matrix/left`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, PyTree

from lrpt.errors import is_integer
from lrpt.matrices import NORMS_OF_LAYER, ROW_AXIS, ROW_NORMS
from lrpt.precision import at_least_single

Scalar = float | np.number | Float[Array, ""]
"""A number, or an array of one, so that `optax.inject_hyperparams` can keep it in the state."""


Axes = Mapping[str, int] | Callable[[tuple[str, ...]], int | tuple[int, ...] | None]
"""The axes along which the entries of one row of a parameter lie: by the last key of its path, or a function of all keys."""


class ShrinkState(NamedTuple):
    """State of `clip_by_norm_or_shrink` and `clip_or_shrink`: the number of gradients so far that were not finite."""

    recoveries: Int[Array, ""]


def clip_by_norm_or_shrink(max_norm: Scalar = 1.0, shrink: Scalar = 0.1) -> optax.GradientTransformation:
    r"""Clip the norm of the gradient. If the norm is not finite, pull the parameters towards zero instead.

    .. math::
        g \leftarrow m\, g / \max(\|g\|, m) \quad\text{if } \|g\| \text{ is finite, else } g \leftarrow s\, \theta

    The norm is taken over all parameters together; m = `max_norm` and s = `shrink` (Pascanu et al. 2013; Miceli Barone 2018, section 3.5.1;
    lowrank-gru, RNN_memory.py). The shrink term is not clipped. It passes through the rest of the chain like a gradient, so that later
    accumulators stay finite. The original divides by max(||g||, m) without the factor m; both agree for m = 1, the only value it uses.

    The rule must see every gradient. `optax.MultiSteps` around a chain with it keeps a gradient that is not finite in its sum, also after
    the update, so that all later updates shrink. With `should_skip_update_fn=optax.skip_not_finite` it leaves such gradients out.

    Raises:
      ValueError: `max_norm` is not above 0, or `shrink` not from 0 to 1; or `update` was called without the parameters.
    """
    _check_positive("max_norm", max_norm)

    def clip(updates: optax.Updates) -> tuple[Bool[Array, ""], optax.Updates]:
        norm = norm_of(updates)
        # A limit without end clips nothing: infinity divided by itself would be NaN.
        return jnp.isfinite(norm), jax.tree.map(lambda g: jnp.where(norm > max_norm, g / norm * max_norm, g), updates)

    return _or_shrink(clip, shrink, "clip_by_norm_or_shrink")


def clip_or_shrink(max_delta: Scalar = 1.0, shrink: Scalar = 0.1) -> optax.GradientTransformation:
    r"""Clip every component of the gradient to +-max_delta. If one is not finite, pull the parameters towards zero instead.

    This is `optax.clip` with the rule of `clip_by_norm_or_shrink` for other gradients: :math:`g \leftarrow s\, \theta`, with s = `shrink`,
    for all parameters together. The shrink term is not clipped.

    Raises:
      ValueError: `max_delta` is not above 0, or `shrink` not from 0 to 1; or `update` was called without the parameters.
    """
    _check_positive("max_delta", max_delta)

    def clip(updates: optax.Updates) -> tuple[Bool[Array, ""], optax.Updates]:
        finite = _all_of(jnp.all(jnp.isfinite(g)) for g in jax.tree.leaves(updates))
        return finite, jax.tree.map(lambda g: jnp.clip(g, -max_delta, max_delta), updates)

    return _or_shrink(clip, shrink, "clip_or_shrink")


def _or_shrink(
    clip: Callable[[optax.Updates], tuple[Bool[Array, ""], optax.Updates]], shrink: Scalar, name: str
) -> optax.GradientTransformation:
    """Return the transformation that clips finite gradients, and replaces others by a share of the parameters."""
    _check_share("shrink", shrink)

    def init(params: optax.Params) -> ShrinkState:
        del params
        return ShrinkState(jnp.zeros((), jnp.int32))

    def update(updates: optax.Updates, state: PyTree, params: optax.Params | None = None) -> tuple[optax.Updates, ShrinkState]:
        theta = _required(params, name)
        finite, clipped = clip(updates)  # in float32 if a traced hyperparameter is, whatever the type of the gradient
        updates = jax.tree.map(lambda g, new, p: jnp.where(finite, new, shrink * p).astype(g.dtype), updates, clipped, theta)
        return updates, ShrinkState(jnp.where(finite, state.recoveries, optax.safe_increment(state.recoveries)))

    return optax.GradientTransformation(init, update)


def recoveries(opt_state: optax.OptState) -> Int[Array, ""] | None:
    """Return the recoveries counted anywhere in a chain's state, added up, or None if nothing in the chain recovers."""
    counts = [count for _, count in optax.tree.get_all_with_path(opt_state, "recoveries")]
    return jnp.asarray(sum(counts)) if counts else None


def by_part(tree: PyTree) -> dict[str, list[Array]]:
    """Return the leaves of parameters or of a gradient by part: 'scheduler', if there is one, and 'rest'."""
    parts: dict[str, list[Array]] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        parts.setdefault(_part(path), []).append(leaf)
    return parts


def _part(path: tuple[Any, ...]) -> str:
    return "scheduler" if any("scheduler" in name for name in _names(path)) else "rest"


def clip_parts_or_shrink(max_norm: Scalar = 1.0, shrink: Scalar = 0.1) -> optax.GradientTransformation:
    r"""Clip the norm of the schedulers' gradient and that of all other parameters separately; else like `clip_by_norm_or_shrink`.

    The 2 n + 1 parameters of a scheduler of n units carry 91 to 99 % of a gradient that grows over long windows. A common norm then scales
    down the gradient of all others as well.

    Raises:
      ValueError: `max_norm` is not above 0, or `shrink` not from 0 to 1; or `update` was called without the parameters.
    """
    _check_positive("max_norm", max_norm)

    def clip(updates: optax.Updates) -> tuple[Bool[Array, ""], optax.Updates]:
        norms = {part: norm_of(leaves) for part, leaves in by_part(updates).items()}
        finite = _all_of(jnp.isfinite(norm) for norm in norms.values())
        scale = {part: jnp.where(norm > max_norm, max_norm / norm, 1) for part, norm in norms.items()}
        return finite, jax.tree_util.tree_map_with_path(lambda path, g: g * scale[_part(path)], updates)

    return _or_shrink(clip, shrink, "clip_parts_or_shrink")


def clip_all_but_first_seven(max_delta: Scalar = 1.0) -> optax.GradientTransformation:
    """Clip every component to +-max_delta, except in the first seven tensors of the original's parameter list (lowrank-gru, RNN_mnist.py).

    The script selects tensors by position, whatever the model. The first seven are:

    - low-rank GRU, with or without diagonal: R of the three gates, the three input matrices, and L of the candidate;
    - dense GRU: the three input matrices, the three recurrent matrices, and the bias of the candidate.

    A shared projection R counts as the three gates' R. Scales of weight normalization, which the original does not have, are clipped.

    Raises:
      ValueError: `max_delta` is not above 0.
    """
    _check_positive("max_delta", max_delta)

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


def project_rows(max_norm: Scalar = 10.0, axes: Axes | None = None) -> optax.GradientTransformation:
    r"""Limit row norms after the update: each row w of every matrix becomes :math:`w \min(1, m / \|w\|)`, m = `max_norm`.

    Matrices are known by the last key of their path in the parameters. By default these are the fields in which lrpt stores them
    (`lrpt.matrices.ROW_AXIS`), and 'kernel', as Flax's `Dense` has it. Biases, diagonals, embeddings and initial states do not change. A
    weight-normalized row is g v / ||v||; both v and g are limited, because |g| is the norm of the effective row, and Miceli Barone 2018,
    section 3.5.1, does not say which of them is meant. This must be the last element of a chain: it replaces the update by the one that
    leads to the projected parameters.

    By default a 'kernel' of more than two axes is refused, because its name does not tell which of them belong to the inputs: (heads, k, d)
    of an attention layer's output, (window, in, out) of a convolution, or a stack of matrices (models, in, out). Name them by `axes`.

    Args:
      max_norm: the largest norm of a row.
      axes: the axis along which the entries of one row lie, which holds the weights of one output. Either a dict from the last key of a
        path: `{"w": 0}` for matrices (in, out), as in `x @ w`, and `{"w": -1}` for (out, in). Or a function of all keys of a path, which
        returns an axis, a tuple of axes, or None for a parameter without rows. The key of an entry of a tuple is its number, as "0".
        `optax.inject_hyperparams` takes a function for a schedule: give it `static_args="axes"`.

    Raises:
      ValueError: `max_norm` is not above 0; no parameter has rows by `axes`, or one has too few axes; a kernel has more than two axes, and
        `axes` is None; or `update` was called without the parameters.
    """
    _check_positive("max_norm", max_norm)

    def init(params: optax.Params) -> optax.EmptyState:
        leaves = [(_names(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(params)]
        paths = [names for names, _ in leaves]
        if paths and all(_row_axes(names, leaf, axes) is None for names, leaf in leaves):
            found = ", ".join(sorted({path[-1] if path else "an array" for path in paths}))
            raise ValueError(
                f"project_rows finds no matrix among {found}: "
                f"name the axis of their rows, as in axes={{'w': 0}} if w is (in, out), or -1 if it is (out, in)"
            )
        return optax.EmptyState()

    def update(updates: optax.Updates, state: PyTree, params: optax.Params | None = None) -> tuple[optax.Updates, Any]:
        def project(path: Any, step: Array, theta: Array) -> Array:
            excess = _excess(_names(path), theta + step, max_norm, axes)
            if excess is None:
                return step
            projected = at_least_single(theta + step) / jnp.maximum(excess, 1) - at_least_single(theta)
            return jnp.where(excess > 1, projected, at_least_single(step)).astype(step.dtype)

        return jax.tree_util.tree_map_with_path(project, updates, _required(params, "project_rows")), state

    return optax.GradientTransformation(init, update)


def shrink_after(share: Scalar) -> optax.GradientTransformation:
    r"""Shrink parameters after the update: :math:`\theta \leftarrow (1 - w)\, \theta` with w = `share`.

    This is the weight decay in the Torch code of Zilly et al. 2017. Like `project_rows`, it must be the last element of a chain.

    Raises:
      ValueError: `share` is not from 0 to 1, or `update` was called without the parameters.
    """
    _check_share("share", share)

    def update(updates: optax.Updates, state: PyTree, params: optax.Params | None = None) -> tuple[optax.Updates, Any]:
        theta = _required(params, "shrink_after")
        return jax.tree.map(lambda step, p: (step - share * (p + step)).astype(step.dtype), updates, theta), state

    return optax.GradientTransformation(optax.init_empty_state, update)


def norm_of(updates: Any) -> Float[Array, ""]:
    """Return the norm of a gradient in float32 or better: squares of finite numbers overflow in float16, and are rough in bfloat16."""
    return optax.tree.norm(jax.tree.map(at_least_single, updates))


def _excess(names: tuple[str, ...], value: Float[Array, "..."], max_norm: Scalar, axes: Axes | None) -> Float[Array, "..."] | None:
    """Return norm / max_norm of each row of a parameter in float32 or better, as `_norm`, or None if the parameter has no rows."""
    of_rows = _row_axes(names, value, axes)
    if of_rows is None:
        return None
    if _are_norms(names):
        return jnp.abs(at_least_single(value)) / max_norm
    if value.ndim < 2:
        raise ValueError(f"project_rows: {'/'.join(names)} has shape {value.shape}, and no rows: leave '{names[-1]}' out of axes")
    return jnp.sqrt(jnp.sum(jnp.square(at_least_single(value)), axis=of_rows, keepdims=True)) / max_norm


def _row_axes(names: tuple[str, ...], value: Float[Array, "..."], axes: Axes | None) -> int | tuple[int, ...] | None:
    """Return the axes along which the entries of one row of a parameter lie, or None if it has no rows.

    Raises:
      ValueError: `axes` names axes that the parameter does not have; or it is None, and the parameter is a kernel of more than two axes.
    """
    if axes is None:
        return _default_axis(names, value)
    found = axes(names) if callable(axes) else axes.get(names[-1]) if names else None
    if found is None or _are_norms(names):
        return found
    if not all(is_integer(axis) and -value.ndim <= axis < value.ndim for axis in (found if isinstance(found, tuple) else (found,))):
        raise ValueError(
            f"project_rows: the axes of {'/'.join(names)} are {found!r}, and its shape is {value.shape}: give one of its axes, a tuple of "
            f"them, or None"
        )
    return found


def _default_axis(names: tuple[str, ...], value: Float[Array, "..."]) -> int | None:
    """Return the axis along which the entries of one row of a matrix of this library lie, or of a kernel of Flax; None for others."""
    if names[-1:] == ("kernel",) and value.ndim > 2:
        raise ValueError(
            f"project_rows: {'/'.join(names)} has shape {value.shape}, and a kernel of more than two axes may be of attention, of a "
            f"convolution or a stack: give axes, such as a function of the path that returns the axes of the inputs: "
            f"lambda path: (0, 1) if path[-2:] == ('out', 'kernel') else 0 if path[-1] == 'kernel' else None"
        )
    return ROW_AXIS.get(names[-1]) if names else None


def _are_norms(names: tuple[str, ...]) -> bool:
    """Return whether a parameter holds the norms of weight-normalized rows."""
    return names[-3:-1] == NORMS_OF_LAYER or any(name in ROW_NORMS.values() for name in names[:-1])


def _all_of(conditions: Iterable[Bool[Array, ""]]) -> Bool[Array, ""]:
    """Return whether all conditions hold; true if there are none, as when `optax.masked` leaves no parameter."""
    return jnp.all(jnp.asarray([*conditions], bool))


def _names(path: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the keys of a path, without the attribute `value` of a box: `nnx.Param` and `flax.linen.Partitioned` hold arrays so."""
    boxed = path[-1:] == (jax.tree_util.GetAttrKey("value"),)
    return tuple(jax.tree_util.keystr((key,), simple=True) for key in (path[:-1] if boxed else path))


def _check_positive(name: str, value: Scalar) -> None:
    _check(name, value, "a number above 0", lambda number: number > 0)


def _check_share(name: str, value: Scalar) -> None:
    _check(name, value, "a number from 0 to 1", lambda number: 0 <= number <= 1)


def _check(name: str, value: Scalar, expected: str, holds: Callable[[Any], Any]) -> None:
    """Raise a ValueError if a number is out of range. Traced numbers, as `optax.inject_hyperparams` passes them, are not checked."""
    if not isinstance(value, Tracer) and (isinstance(value, str) or not holds(value)):
        given = repr(value) if isinstance(value, str) else value
        raise ValueError(f"{name} is {given}: expected {expected}")


def _required(params: optax.Params | None, name: str) -> optax.Params:
    if params is None:
        raise ValueError(f"{name} needs the current parameters: call update(gradients, state, params)")
    return params
