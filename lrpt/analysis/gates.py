"""Gate activity of recurrent highway networks, by layer and step."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Array, Bool, Float

from lrpt.analysis.plots import saved_figure
from lrpt.cells import RHNInfo
from lrpt.errors import UsageError, check_choice

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh


def gate_activity(
    info: RHNInfo | Sequence[RHNInfo], gate: str = "transform", mask: Bool[Array, "t b"] | Bool[np.ndarray, "t b"] | None = None
) -> Float[np.ndarray, "b l t"]:
    """Compute the mean over units of a gate at each layer and step, for each sequence (Zilly et al. 2017, Figure 5b).

    Args:
      info: the gates of each layer at all steps, each of shape (t, b, n): `carry, (y, info) = lrpt.recur(..., outputs="info")`.
      gate: transform, carry or candidate.
      mask: true at steps that count; other steps become NaN.

    Raises:
      UsageError: the gate is unknown, or `info` is not that of a recurrent highway network.
    """
    layers = _layers(info)
    check_choice("gate", gate, RHNInfo._fields)
    means = np.stack([np.mean(np.asarray(getattr(layer, gate), np.float64), axis=-1) for layer in layers])
    if mask is not None:
        means = np.where(np.asarray(mask)[None], means, np.nan)
    return np.transpose(means, (2, 0, 1))


def _layers(info: Any) -> Sequence[RHNInfo]:
    """Return the gates of each layer, of one or of several.

    Raises:
      UsageError: they are not gates of a recurrent highway network.
    """
    layers = [info] if isinstance(info, RHNInfo) else info
    if isinstance(layers, list | tuple) and layers and all(isinstance(layer, RHNInfo) for layer in layers):
        return layers
    names = ["array" if hasattr(layer, "shape") else type(layer).__name__ for layer in info] if isinstance(info, list | tuple) else []
    kinds = f"({', '.join(names)})" if isinstance(info, list | tuple) else type(info).__name__
    own = ", ".join(f"info.{name}" for name in getattr(info, "_fields", ()))
    raise UsageError(
        f"info is {kinds}: give that of a cell rhn or rhn_uncoupled, as in carry, (y, info) = recur(..., outputs='info')"
        f"{f'; its own gates are {own}' if own else ''}"
    )


def gate_figure(activity: Float[np.ndarray, "b l t"], path: str | Path, title: str = "", gate: str = "transform") -> Path:
    """Plot a heat map for each sequence, with layers upwards and time to the right, and write a PNG and a PDF. Masked steps stay white."""
    count, layers, steps = activity.shape
    counted = np.flatnonzero(np.isfinite(activity).any(axis=(0, 1)))
    last = int(counted[-1]) + 1 if counted.size else steps
    with saved_figure(path, 6.4, 0.5 + count * (0.5 + 0.16 * layers)) as figure:
        lowest = -1 if gate == "candidate" else 0
        panels = figure.subplots(count, 1, squeeze=False, sharex=True)[:, 0]
        images = [_heat_map(axes, of_sequence, lowest) for axes, of_sequence in zip(panels, activity, strict=True)]
        panels[0].set_title(title)
        panels[-1].set(xlabel="step", xlim=(0.5, last + 0.5))  # without the padding after the longest sequence
        figure.colorbar(images[0], ax=panels, label=f"mean {gate} gate")
    return Path(path)


def _heat_map(axes: "Axes", activity: Float[np.ndarray, "l t"], lowest: int) -> "QuadMesh":
    layers, steps = activity.shape
    axes.set(ylabel="layer", yticks=range(1, layers + 1))
    axes.grid(visible=False)
    return axes.pcolormesh(np.arange(steps + 1) + 0.5, np.arange(layers + 1) + 0.5, activity, vmin=lowest, vmax=1, cmap="viridis")
