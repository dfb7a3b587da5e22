"""Adapters: the recurrent matrices of a trained network are frozen, and a trainable term of low rank is added to each.

    W' = W + R L (+ D), with W frozen, and L and D zero at the start (Hu et al. 2022, section 4.1)

The network starts with the predictions of the trained one. What is frozen lies in the Flax collection 'frozen'. So it has no gradient and
no state of the optimizer. Biases, inputs, embeddings, the initial state and the readout are trained as before. `in_full` adds the terms up
again, after which the network is an ordinary one with dense matrices.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import PyTree

from lrpt.cells.stacked import layer_of
from lrpt.compression.stored import full_matrices
from lrpt.errors import UsageError
from lrpt.matrices import ROW_NORMS
from lrpt.networks.recurrent import Recurrent, RecurrentConfig
from lrpt.parametrizations import FROZEN
from lrpt.specs import name_of, role_of

Config = TypeVar("Config", bound=RecurrentConfig)


def in_full(params: PyTree, network: Recurrent, frozen: Any = None) -> dict[str, Any]:
    """Multiply out and add up all matrices of a network. Return the parameters of the same function with dense matrices, up to rounding.

    Args:
      params: parameters of the network: the part 'recurrent' of the parameters of a `SequenceModel`, or all of these.
      network: the trained network, with any parametrization, weight normalization or adapters.
      frozen: the same part of the collection 'frozen', for networks with adapters.

    Raises:
      UsageError: these are no parameters of a network, or what is frozen is missing.
    """
    if _is_whole(params):
        own = None if frozen is None else frozen["recurrent"]
        return {**params, "recurrent": in_full(params["recurrent"], network, own)}
    _check_cell(params)
    cell = {name: part for name, part in params["cell"].items() if name not in ROW_NORMS.values()}
    for role in ("recurrent", "input"):
        found = full_matrices(params, network, role, frozen)
        cell |= {role: {name: {"kernel": W.astype(np.float32)} for name, (_, W) in found.items()}} if found else {}
    return {**params, "cell": cell}


def full_config(config: Config) -> Config:
    """Return the configuration of a network with the parameters that `in_full` returns."""
    changes: dict[str, Any] = {"parametrization": "dense", "tied": False, "weight_norm": False}
    changes |= {"input_parametrization": "dense", "input_tied": False}
    return replace(config, **changes)


def adapter_config(config: Config, rank: int, diagonal: bool) -> Config:
    """Return the configuration of a trained network after `in_full`, with an adapter beside each recurrent matrix."""
    changes: dict[str, Any] = {"parametrization": "adapter_plus_diagonal" if diagonal else "adapter", "rank": rank}
    return replace(full_config(config), **changes)


def adapted(trained: Mapping[str, Any], initial: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of a network with adapters at the start of training.

    Args:
      trained: parameters of the network whose matrices are frozen, as `in_full` returns them. Of a `SequenceModel`, give all of them:
        `initial` then gives the adapters only. If `trained` is the part 'recurrent', `initial` also gives the embedding and the readout.
      initial: variables of the network with adapters as drawn.

    Raises:
      UsageError: the matrices of `trained` are not dense, or `initial` has no adapters.
    """
    if _is_whole(trained):
        start = adapted(trained["recurrent"], initial)
        return {**start, "params": {**trained, "recurrent": start["params"]["recurrent"]}}
    _check_dense(trained)
    if FROZEN not in initial:
        raise UsageError(f"initial has no collection '{FROZEN}': give variables of a network with the configuration adapter_config(...)")
    cell = trained["cell"]
    drawn = initial["params"]["recurrent"]["cell"]["recurrent"]
    recurrent = {**trained, "cell": {**cell, "recurrent": drawn}}
    return {
        **initial,
        "params": {**initial["params"], "recurrent": recurrent},
        FROZEN: {"recurrent": {"cell": {"recurrent": cell["recurrent"]}}},
    }


def _is_whole(params: Mapping[str, Any]) -> bool:
    """Return whether these are all parameters of a `SequenceModel`, not the part 'recurrent'."""
    return "recurrent" in params and "cell" not in params


def _check_cell(params: Mapping[str, Any]) -> None:
    if "cell" not in params:
        parts = ", ".join(map(str, params)) or "nothing"
        raise UsageError(f"params have {parts}, and neither 'recurrent' nor 'cell': give the parameters of a SequenceModel")


def _check_dense(params: Mapping[str, Any]) -> None:
    """Raise a UsageError unless all recurrent matrices of a network are stored as dense ones."""
    _check_cell(params)
    for name, arrays in params["cell"].get("recurrent", {}).items():
        if set(arrays) != {"kernel"}:
            raise UsageError(
                f"the matrix '{name}' is stored as {', '.join(arrays)}, and only dense ones can be frozen: give in_full(params, ...)"
            )


def merged(variables: Mapping[str, Any], network: Recurrent) -> dict[str, Any]:
    """Add the adapters of a network to its matrices. Return the variables of the network with dense matrices (`full_config`)."""
    rest = {name: tree for name, tree in variables.items() if name != FROZEN}
    return {**rest, "params": in_full(variables["params"], network, variables[FROZEN])}


def with_symbols(
    params: Mapping[str, Any], initial: Mapping[str, Any], network: Recurrent, old: Sequence[str], new: Sequence[str]
) -> dict[str, Any]:
    """Return parameters for another vocabulary: what belongs to a symbol moves to its new number, and unknown symbols stay as drawn.

    Args:
      params: parameters of a `SequenceModel` whose input matrices are dense.
      initial: parameters as drawn for the new vocabulary.
      network: its recurrent part.
      old: the symbols that the network was trained with.
      new: the symbols of the new vocabulary.

    Raises:
      UsageError: layers share an input matrix, whose rows belong to symbols in the first layer only.
    """
    numbers = {symbol: number for number, symbol in enumerate(old)}
    pairs = [(place, numbers[symbol]) for place, symbol in enumerate(new) if symbol in numbers]
    to, of = [place for place, _ in pairs], [number for _, number in pairs]

    def moved(trained: Any, drawn: Any, axis: int) -> np.ndarray:
        found = np.moveaxis(np.array(drawn), axis, 0)
        found[to] = np.moveaxis(np.asarray(trained), axis, 0)[of]
        return np.moveaxis(found, 0, axis)

    found = {**params}
    for name in params.keys() & {"readout", "readout_bias"}:
        found[name] = jax.tree.map(lambda trained, drawn: moved(trained, drawn, -1), params[name], initial[name])
    if "embedding" in params:
        table = moved(params["embedding"]["table"], initial["embedding"]["table"], 0)
        return {**found, "embedding": {**params["embedding"], "table": table}}
    cell, drawn = params["recurrent"]["cell"], initial["recurrent"]["cell"]["input"]
    first = _inputs_of_first_layer(network)
    inputs = {name: {"kernel": moved(cell["input"][name]["kernel"], drawn[name]["kernel"], 0)} for name in first}
    return {**found, "recurrent": {**params["recurrent"], "cell": {**cell, "input": {**cell["input"], **inputs}}}}


def _inputs_of_first_layer(network: Recurrent) -> list[str]:
    """Return the names of the input matrices that see symbols."""
    if network.config.layers > 1 and network.config.shared_layers:
        raise UsageError(
            "layers share input matrices, whose rows are symbols in the first layer and outputs of a layer in the others: take a network "
            "with an embedding, or with own parameters in each layer"
        )
    template = network.cell.template(network.spec)
    found = jax.tree_util.tree_leaves_with_path(template)
    return [name_of(path, spec) for path, spec in found if role_of(spec) == "input" and not layer_of(template, path)]
