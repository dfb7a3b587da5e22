"""What each layer of a recurrent highway network is worth: the loss once its transform gate is shut."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lrpt.analysis.figures import png
from lrpt.errors import UsageError

SHUT = -1e4
"""A bias in whose presence the gate is 0 to the last bit."""

_TRANSFORM_BIAS = re.compile(r"(?:.*/)?bias/(\d+)_transform")


class Lesions(NamedTuple):
    """The loss of the whole network, and with each layer shut, first to last."""

    intact: float
    shut: tuple[float, ...]

    @property
    def increases(self) -> tuple[float, ...]:
        """How much shutting each layer adds to the loss."""
        return tuple(loss - self.intact for loss in self.shut)


def shut_layer(params: Any, layer: int) -> Any:
    """The parameters of a network with the transform gate of one layer shut, counted from 0.

    Of coupled gates the carry gate is open then, and the layer hands its state on. An uncoupled one still multiplies it by its carry gate.

    Raises:
      UsageError: there is no such layer, or no transform gate at all.
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
    """The layers that have a transform gate, by the names of their biases."""
    found = (_layer_of(path) for path, _ in jax.tree_util.tree_leaves_with_path(params))
    return sorted({layer for layer in found if layer is not None})


def _layer_of(path: Any) -> int | None:
    found = _TRANSFORM_BIAS.fullmatch(jax.tree_util.keystr(path, simple=True, separator="/"))
    return int(found[1]) if found else None


def lesions(params: Any, loss: Callable[[Any], Any]) -> Lesions:
    """Shuts one layer at a time, as Zilly et al. 2017 do after training (section 6), who measure the loss on the training part.

    Args:
      params: of a network with a recurrent highway network in it, as Flax holds them: 'bias' / '0_transform', at any level.
      loss: the loss of a network with such parameters, a scalar; compiled by the caller if at all.

    Raises:
      UsageError: these are no parameters of a recurrent highway network.
    """
    shut = [shut_layer(params, layer) for layer in transform_layers(params) or [0]]
    return Lesions(float(loss(params)), tuple(float(loss(changed)) for changed in shut))


def lesion_figure(found: Lesions, path: Path, title: str = "", unit: str = "nats") -> Path:
    """Draws the increase for each layer as a bar, and writes a PNG."""
    with png(path) as figure:
        axes = figure.subplots()
        axes.bar(range(1, len(found.shut) + 1), found.increases)
        axes.set(xlabel="layer whose transform gate is shut", ylabel=f"increase of the loss [{unit}]", xticks=range(1, len(found.shut) + 1))
        axes.set_title(title)
    return path
