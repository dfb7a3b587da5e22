"""The importance of each layer of a recurrent highway network: the loss with its transform gate held closed, or held open."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from lrpt.analysis.plots import saved_figure
from lrpt.errors import UsageError

SHUT, OPEN = -1e4, 1e4
"""Biases that make the gate exactly 0, or exactly 1."""

_TRANSFORM_BIAS = re.compile(r"(?:.*/)?bias/(\d+)_transform")


class Lesions(NamedTuple):
    """The loss of the intact network, and with each layer's transform gate held closed and held open, first layer to last."""

    intact: float
    shut: tuple[float, ...]
    opened: tuple[float, ...]

    @property
    def increases(self) -> tuple[float, ...]:
        """Return how much closing each layer's gate increases the loss."""
        return tuple(loss - self.intact for loss in self.shut)

    @property
    def increases_open(self) -> tuple[float, ...]:
        """Return how much holding each layer's gate open increases the loss."""
        return tuple(loss - self.intact for loss in self.opened)


def shut_layer(params: PyTree, layer: int) -> PyTree:
    """Close the transform gate of one layer, counted from 0, and return the parameters.

    With coupled gates the carry gate is then open, and the layer passes its state on. With uncoupled gates the carry gate still multiplies
    it.

    Raises:
      UsageError: the layer does not exist, or the network has no transform gates.
    """
    return _held(params, layer, SHUT)


def open_layer(params: PyTree, layer: int) -> PyTree:
    """Open the transform gate of one layer, counted from 0, and return the parameters.

    With coupled gates the carry gate is then closed, and the layer is one of a deep transition network.

    Raises:
      UsageError: the layer does not exist, or the network has no transform gates.
    """
    return _held(params, layer, OPEN)


def _held(params: PyTree, layer: int, bias: float) -> PyTree:
    layers = transform_layers(params)
    if layer not in layers:
        raise UsageError(
            f"layer is {layer}: expected one of {layers}"
            if layers
            else "the parameters are not of a recurrent highway network with one layer: give those of an RHN with model.layers 1; "
            "any model.depth will do"
        )

    def held(path: Any, leaf: Any) -> PyTree:
        return jnp.full_like(leaf, bias) if _layer_of(path) == layer else leaf

    return jax.tree_util.tree_map_with_path(held, params)


def transform_layers(params: PyTree) -> list[int]:
    """Return the layers that have a transform gate, found by the names of their biases."""
    found = (_layer_of(path) for path, _ in jax.tree_util.tree_leaves_with_path(params))
    return sorted({layer for layer in found if layer is not None})


def _layer_of(path: Any) -> int | None:
    found = _TRANSFORM_BIAS.fullmatch(jax.tree_util.keystr(path, simple=True, separator="/"))
    return int(found[1]) if found else None


def lesions(params: PyTree, loss: Callable[[Any], Any]) -> Lesions:
    """Compute the loss with one layer's transform gate held closed at a time, and with it held open.

    Zilly et al. 2017, section 6, close gates and take the loss on the training split.

    Args:
      params: parameters that contain a recurrent highway network, in Flax's form: 'bias' / '0_transform', at any level.
      loss: maps parameters to the scalar loss of the network; the caller may compile it.

    Raises:
      UsageError: there is no recurrent highway network in the parameters.
    """
    layers = transform_layers(params) or [0]
    changed = [[hold(params, layer) for layer in layers] for hold in (shut_layer, open_layer)]
    shut, opened = (tuple(float(loss(one)) for one in of_hold) for of_hold in changed)
    return Lesions(float(loss(params)), shut, opened)


def lesion_figure(found: Lesions, path: str | Path, title: str = "", unit: str = "nats") -> Path:
    """Plot the increases of the loss for each layer as two bars, gate closed and gate held open, and write a PNG and a PDF."""
    layers, width = np.arange(1, len(found.shut) + 1), 0.4
    with saved_figure(path) as figure:
        axes = figure.subplots()
        axes.bar(layers - width / 2, found.increases, width, label="closed")
        axes.bar(layers + width / 2, found.increases_open, width, label="held open")
        axes.set(xlabel="layer whose transform gate is held", ylabel=f"increase of the loss [{unit}]", xticks=layers)
        axes.set_title(title)
        axes.legend()
    return Path(path)
