"""Networks as arrays for `lrpt.interop.torch_network`, the PyTorch module that keeps low-rank matrices as products of factors."""

import json
from collections.abc import Mapping
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from lrpt.cells import LSTMCarry
from lrpt.errors import UsageError
from lrpt.interop.pytorch import MATRICES, bound_layers
from lrpt.matrices import Bias, Sum
from lrpt.networks.recurrent import initial_row
from lrpt.networks.sequence_model import ModelConfig, recurrent_of
from lrpt.runs.files import write_text
from lrpt.runs.named_arrays import write_npz
from lrpt.scaling import UNSCALED, Scaling

CELLS = ("gru", "gru_reset_after", "gru_cudnn", "lstm")

Network = dict[str, np.ndarray]
"""Content of the file that `torch_network.Network.load` reads: arrays by dotted name, and the configuration as JSON."""


def source() -> str:
    """Return the source of the module."""
    return (files("lrpt.interop") / "torch_network.py").read_text("utf-8")


def of_layers(
    cell: str, layers: Mapping[str, Any], input_size: int, reads: str = "all", scaling: Scaling = UNSCALED, **more: Any
) -> Network:
    """Return the arrays of recurrent layers.

    Args:
      cell: the name of the cell.
      layers: parameters of its step by PyTorch's suffix of layer and direction (see `lrpt.interop.pytorch.bound`).
      input_size: width of the inputs, or number of symbols.
      reads: 'all' returns the outputs of all steps, 'last' of the last.
      scaling: constants with which the module scales inputs and predictions.
      more: trees of further arrays: embedding, readout, initial state.

    Raises:
      UsageError: the module has no such cell, or a matrix is neither of a kind in `MATRICES` nor a sum of different ones.
    """
    if cell not in CELLS:
        raise UsageError(f"cell {cell} cannot be written for PyTorch: choose a network with one of {', '.join(CELLS)}")
    order = [[name, f"{name}_reverse"] if f"{name}_reverse" in layers else [name] for name in layers if not name.endswith("_reverse")]
    config = {"cell": cell, "reads": reads, "layers": order, "input_size": input_size, "scaling": scaling.to_json()}
    tree = {name: {gate: _gate(getattr(layer, gate)) for gate in layer._fields} for name, layer in layers.items()} | more
    named = {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(a) for path, a in jax.tree_util.tree_leaves_with_path(tree)}
    return {"config": np.array(json.dumps(config)), **named}


def of_model(params: PyTree, config: ModelConfig, input_size: int, reads: str, scaling: Scaling = UNSCALED) -> Network:
    """Return the arrays of a `SequenceModel` with these parameters, for inputs and predictions in the units of the data.

    Raises:
      UsageError: as `of_layers`.
    """
    network = recurrent_of(config, input_size)
    cell, layers = bound_layers(params["recurrent"], network)
    readout = {"bias": params["readout_bias"]} if config.embeddings.tied else params["readout"]
    more = {"readout": dict(readout)}
    if "embedding" in params:
        more["embedding"] = dict(params["embedding"])
    if "initial_state" in params["recurrent"]:
        states = initial_row(params["recurrent"], network)
        more["initial"] = {name: _state(own) for name, own in zip(layers, states if config.layers > 1 else (states,), strict=True)}
    return of_layers(cell, layers, input_size, reads, scaling, **more)


def write(directory: Path, arrays: Network) -> tuple[Path, Path]:
    """Write `network.py` and `network.npz`, each atomically. Return their paths.

    Raises:
      OSError: they cannot be written.
    """
    code, weights = directory / "network.py", directory / "network.npz"
    write_text(code, source())
    write_npz(weights, arrays)
    return code, weights


def _gate(gate: Any) -> dict[str, Any]:
    return {name: _operator(getattr(gate, name)) for name in gate._fields}


def _operator(operator: Any) -> Any:
    if isinstance(operator, Bias):
        return operator.bias
    terms = operator.terms if isinstance(operator, Sum) else (operator,)
    kinds = [type(term).__name__ for term in terms]
    if not all(isinstance(term, MATRICES) for term in terms) or len(set(kinds)) < len(kinds):
        known = ", ".join(kind.__name__ for kind in MATRICES)
        raise UsageError(
            f"a matrix is a {' + '.join(kinds)}, and the PyTorch module has {known} and sums of them only: compress the network first"
        )
    return {field.name: getattr(term, field.name) for term in terms for field in fields(term)}


def _state(own: Any) -> dict[str, Any]:
    return {"h": own.h, "c": own.c} if isinstance(own, LSTMCarry) else {"h": own}
