"""The importance of each layer of a recurrent highway network: the loss with its transform gate closed."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lrpt.analysis.plots import png
from lrpt.errors import UsageError

SHUT = -1e4
"""A bias that makes the gate exactly 0."""

_TRANSFORM_BIAS = re.compile(r"(?:.*/)?bias/(\d+)_transform")


class Lesions(NamedTuple):
    """The loss of the intact network, and with each layer's transform gate closed, first layer to last."""

    intact: float
    shut: tuple[float, ...]

    @property
    def increases(self) -> tuple[float, ...]:
        """Return how much closing each layer's gate increases the loss."""
        return tuple(loss - self.intact for loss in self.shut)


def shut_layer(params: Any, layer: int) -> Any:
    """Close the transform gate of one layer, counted from 0, and return the parameters.

    With coupled gates the carry gate is then open, and the layer passes its state on. With uncoupled gates the carry gate still multiplies
    it.

    Raises:
      UsageError: the layer does not exist, or the network has no transform gates.
    """
    layers = transform_layers(params)
    if layer not in layers:
        raise UsageError(
            f"layer is {layer}: expected one of {layers}" if layers else "these are no parameters of a recurrent highway network"
        )

    def shut(path: Any, leaf: Any) -> Any:
        return jnp.full_like(leaf, SHUT) if _layer_of(path) == layer else leaf

    return jax.tree_util.tree_map_with_path(shut, params)


def transform_layers(params: Any) -> list[int]:
    """Return the layers that have a transform gate, found by the names of their biases."""
    found = (_layer_of(path) for path, _ in jax.tree_util.tree_leaves_with_path(params))
    return sorted({layer for layer in found if layer is not None})


def _layer_of(path: Any) -> int | None:
    found = _TRANSFORM_BIAS.fullmatch(jax.tree_util.keystr(path, simple=True, separator="/"))
    return int(found[1]) if found else None


def lesions(params: Any, loss: Callable[[Any], Any]) -> Lesions:
    """Compute the loss with one layer's transform gate closed at a time (Zilly et al. 2017, section 6, on the training split).

    Args:
      params: parameters that contain a recurrent highway network, in Flax's form: 'bias' / '0_transform', at any level.
      loss: maps parameters to the scalar loss of the network; the caller may compile it.

    Raises:
      UsageError: there is no recurrent highway network in the parameters.
    """
    shut = [shut_layer(params, layer) for layer in transform_layers(params) or [0]]
    return Lesions(float(loss(params)), tuple(float(loss(changed)) for changed in shut))


def lesion_figure(found: Lesions, path: Path, title: str = "", unit: str = "nats") -> Path:
    """Plot the increase of the loss for each layer as a bar, and write a PNG."""
    with png(path) as figure:
        axes = figure.subplots()
        axes.bar(range(1, len(found.shut) + 1), found.increases)
        axes.set(xlabel="layer whose transform gate is shut", ylabel=f"increase of the loss [{unit}]", xticks=range(1, len(found.shut) + 1))
        axes.set_title(title)
    return path
