"""Conversion of trained GRUs and LSTMs from Flax and PyTorch, and to PyTorch, as arrays by name. Neither package needs to be installed.

The cells differ from ours only in the order of gates, the orientation of matrices and the number of biases. The GRU of both packages is
`gru_cudnn` here: its reset gate acts after the product, on a bias too. Their z is our update gate, which keeps the old state:
h' = (1 - z) n + z h.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import numpy as np
from jaxtyping import Float, PyTree

from lrpt.cells.stacked import StackParams
from lrpt.errors import UsageError
from lrpt.interop.linen import RNN, Bidirectional, Cell, Layers
from lrpt.matrices import Bias, Dense, Diagonal, LowRank
from lrpt.networks.configuration import InitialConfig, TiedStorageConfig
from lrpt.networks.recurrent import Recurrent, cell_params
from lrpt.networks.sequence_model import ModelConfig
from lrpt.runs.named_arrays import finite_float32

# Flax's letter -> our gate, in the stacking order of torch.nn.GRU and torch.nn.LSTM.
GATES = {
    "gru_cudnn": {"r": "reset", "z": "update", "n": "candidate"},
    "lstm": {"i": "input", "f": "forget", "g": "candidate", "o": "output"},
}


FLAX_BIASES = {"gru_cudnn": ("ir", "iz", "in", "hn"), "lstm": ("hi", "hf", "hg", "ho")}
"""Linear maps of the cells of `flax.linen` that have a bias, by cell."""


class _Names(NamedTuple):
    """Names of a cell's arrays in another package, as regular expressions.

    Attributes:
      similar: names that only a cell has, misspelt ones included.
      known: the right ones among them.
      bias: names of biases.
    """

    similar: str
    known: str
    bias: str


PYTORCH = _Names(r"(.*_)?(ih|hh)(_[^.]*)?", r"(weight|bias)_(ih|hh)(_l\d+(_reverse)?)?", r"bias_.*")
FLAX = {cell: _Names(rf"[ih][{''.join(gates)}]\..*", r"..\.(kernel|bias)", r"..\.bias") for cell, gates in GATES.items()}

ORDER = {"gru_cudnn": "gru_cudnn", "gru_reset_after": "gru_cudnn", "lstm": "lstm"}
"""Cells that PyTorch has, and the key of their gates. The bias of `gru_reset_after` is not reset: it is the one beside the inputs."""

MATRICES = Dense, LowRank, Diagonal
"""Kinds of matrices that `lrpt.interop.torch_network` (written as network.py) has, and sums of them."""

Cells = dict[str, tuple[Any, Recurrent]]
"""Parameters and network of each layer and direction, by PyTorch's suffix: l0, l0_reverse, l1 ..."""


NAMES_IN_CELLS = "weight_ih", "weight_hh", "bias_ih", "bias_hh"
"""Names of the arrays of PyTorch's GRUCell and LSTMCell. Those of a network have a suffix, such as _l0."""


class _Gate(NamedTuple):
    """One gate of another package, for row vectors: x W + b and h U + c."""

    W: Float[np.ndarray, "m n"]
    U: Float[np.ndarray, "n n"]
    b: Float[np.ndarray, " n"]
    c: Float[np.ndarray, " n"]


def read(arrays: Mapping[str, Any], layer: str = "l0") -> tuple[dict[str, Any], Recurrent]:
    """Convert arrays to the parameters of a `Recurrent` network with dense matrices and a zero initial state. Return both.

    Args:
      arrays: parameters of one `flax.linen` GRUCell, LSTMCell or OptimizedLSTMCell (`hn/kernel`; nested, or with names joined by / or .),
        or the state dict of a `torch.nn` GRU, LSTM (`weight_hh_l0`), GRUCell or LSTMCell (`weight_hh`). Other arrays may be present, and
        names may have a prefix.
      layer: suffix of the layer of a PyTorch network, such as l0, or l0_reverse for the other direction.

    Raises:
      UsageError: there is no such cell or more than one; an array is missing, has an unknown name, or does not fit the shapes of
        the others; some biases are missing and others are not.
    """
    named = _named(arrays)
    # Each cell has exactly one array with one of these names. Arrays of PyTorch do not tell the cell by name.
    marks = {f"weight_hh_{layer}": None, "weight_hh": None, "hn.kernel": "gru_cudnn", "hg.kernel": "lstm"}
    found = [(name, mark) for name in named for mark in marks if f".{name}".endswith(f".{mark}")]
    if len(found) != 1:
        names = ", ".join(name for name, _ in found) or "none"
        advice = _part_to_pass(arrays, *found[0]) if found else _layouts(named)
        raise UsageError(
            f"expected the arrays of one GRU or LSTM of Flax or PyTorch, with one of {', '.join(marks)}; found {names}: {advice}"
        )
    ((name, mark),) = found
    part = {other.removeprefix(name.removesuffix(mark)): a for other, a in named.items() if other.startswith(name.removesuffix(mark))}
    _check_kind(part)
    suffix = mark.removeprefix("weight_hh")
    cell = marks[mark] or _cell_of_pytorch(part, suffix)
    gates = _of_flax(part, cell) if marks[mark] else _of_pytorch(part, cell, suffix)
    m, n = gates["candidate"].W.shape
    return {"cell": _tree(cell, gates)}, Recurrent(
        ModelConfig(cell, n, matrices=TiedStorageConfig("dense"), initial=InitialConfig(trainable_state=False)), m
    )


def _part_to_pass(arrays: Mapping[str, Any], name: str, mark: str) -> str:
    """Return the advice for arrays of several cells. `name` is the array of one of them that ends with `mark`."""
    prefix = name.removesuffix(mark)
    first, *rest = prefix.split(".")[:-1] or [""]
    if isinstance(arrays.get(first), Mapping):
        part = "arrays['params']" if first == "params" else f"params['{first}']"
        return f"pass the part of one cell, such as {part}{''.join(f'[{key!r}]' for key in rest)}"
    return "pass the arrays of one cell" + (f", such as those whose names begin with '{prefix}'" if prefix else "")


def _layouts(named: Mapping[str, Any]) -> str:
    """Return which layers there are, or which cells `read` knows, for arrays that have none of these."""
    layers = [name.rpartition("weight_hh_")[2] for name in named if "weight_hh_" in name]
    if layers:
        return f"the arrays have the layers {', '.join(dict.fromkeys(layers))}"
    known = "torch.nn GRU, LSTM, GRUCell and LSTMCell and flax.linen GRUCell, LSTMCell and OptimizedLSTMCell can be read"
    return known + ("; dense_h is of flax.nnx, which stacks gates" if any(".dense_h." in f".{name}" for name in named) else "")


def _check_kind(part: Mapping[str, Any]) -> None:
    """Raise a UsageError for cells that have some names of a GRU or an LSTM of `flax.linen`, and are none."""
    if {"hf.kernel", "hn.kernel"} <= part.keys() and "hr.kernel" not in part:
        raise UsageError("hf and hn without hr are of a flax.linen.MGUCell, which is neither a GRU nor an LSTM: only these can be read")
    if "if_.kernel" in part:
        raise UsageError(f"if_ is of a flax.nnx.LSTMCell: {_layouts(part)}")


def read_layers(arrays: Mapping[str, Any]) -> Cells:
    """Convert all layers and directions of a `torch.nn` GRU or LSTM, or one cell as `read` does. Names may have a prefix.

    Raises:
      UsageError: the errors of `read`; a layer or a direction is missing; or there are several networks.
    """
    found = {match.group(1) for name in _named(arrays) if (match := re.search(r"(?:^|\.)weight_hh_(l\d+(?:_reverse)?)$", name))}
    if not found:
        return {"l0": read(arrays)}
    directions = ("", "_reverse") if any(name.endswith("_reverse") for name in found) else ("",)
    layers = 1 + max(int(name[1:].removesuffix("_reverse")) for name in found)
    return {f"l{k}{direction}": read(arrays, f"l{k}{direction}") for k in range(layers) for direction in directions}


def is_state_dict(arrays: Mapping[str, Any]) -> bool:
    """Return whether arrays are those of a network or a cell of PyTorch, by name, and not of Flax."""
    return any(_with_layer(name).startswith("weight_hh_l") for name in _named(arrays))


def replaced(arrays: Mapping[str, Any], changed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return a state dict with the arrays of its recurrent layers replaced, by name without prefix; all others are kept.

    Args:
      arrays: the state dict of a network, or of a GRUCell or LSTMCell, whose names have no suffix of a layer.
      changed: arrays as `write` returns them. Biases that the state dict does not have are left out.

    Raises:
      UsageError: the state dict lacks one of the matrices.
    """
    named = _named(arrays)
    of_layer = {name: _with_layer(name) for name in named}
    if missing := [name for name in changed if name.startswith("weight_") and name not in of_layer.values()]:
        raise UsageError(f"the state dict has no {', '.join(missing)}: give the one that was read, of a GRU, LSTM or a cell of PyTorch")
    return {name: changed.get(of_layer[name], array) for name, array in named.items()}


def _with_layer(name: str) -> str:
    """Return the name of an array without prefix. An array of a cell gets the name that it has in a network of one layer."""
    own = name.rpartition(".")[2]
    return f"{own}_l0" if own in NAMES_IN_CELLS else own


def _named(arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return arrays by dotted name."""
    leaves = jax.tree_util.tree_leaves_with_path(arrays)
    return {jax.tree_util.keystr(path, simple=True, separator=".").replace("/", "."): np.asarray(array) for path, array in leaves}


def as_linen(cells: Cells) -> tuple[nn.Module, dict[str, Any]]:
    """Return a Flax module of the layers, one after another, and its parameters.

    It maps (batch, time, inputs) to all outputs, for sequences of the lengths `seq_lengths` if they are given.

    Args:
      cells: parameters and network of each layer and direction, as `read_layers` returns them. A compressed layer, the result `small` of
        `lrpt.compression.network.compress`, is `(small.params, small.network)`.

    Raises:
      UsageError: an entry is no such pair.
    """
    _check_cells(cells)
    layers, params = [], {}
    for name in (name for name in cells if not name.endswith("_reverse")):
        both = [cells[key] for key in (name, f"{name}_reverse") if key in cells]
        rnns: list[Any] = [_rnn(network) for _, network in both]
        own = [{"cell": found["cell"]} for found, _ in both]
        params[f"layers_{len(layers)}"] = own[0] if len(both) == 1 else {"forward_rnn": own[0], "backward_rnn": own[1]}
        layers.append(rnns[0] if len(both) == 1 else Bidirectional(*rnns, parent=None))
    return Layers(layers, parent=None), params


def _check_cells(cells: Cells) -> None:
    for name, pair in cells.items():
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[1], Recurrent):
            kinds = f"({', '.join(type(part).__name__ for part in pair)})" if isinstance(pair, tuple) else f"a {type(pair).__name__}"
            raise UsageError(f"the layer '{name}' is {kinds}: give (params, network), or (small.params, small.network) if it is compressed")


def _rnn(network: Recurrent) -> RNN:
    config = network.config
    stored: dict[str, Any] = {"matrices": config.recurrent_matrices, "inputs": config.input_matrices}
    return RNN(Cell(config.cell, config.size, **stored, carry_bias=config.initial.carry_bias, parent=None), loop=config.loop, parent=None)


def bound(cells: Cells) -> tuple[str, dict[str, Any]]:
    """Return the name of the cell, and the parameters of its step for each layer and direction.

    Raises:
      UsageError: an entry is no pair of parameters and a network, or the layers have several cells or are none.
    """
    _check_cells(cells)
    kinds = sorted({network.config.cell for _, network in cells.values()})
    if len(kinds) != 1:
        raise UsageError(f"the cells of the layers are {', '.join(kinds) or 'none'}: give one or more layers with one kind of cell")
    return kinds[0], {name: cell_params(params, network) for name, (params, network) in cells.items()}


def bound_layers(params: PyTree, network: Recurrent) -> tuple[str, dict[str, Any]]:
    """Return the name of the cell, and the parameters of its step for each layer of a network, by PyTorch's suffix."""
    found, config = cell_params(params, network), network.config
    layers = found.layers * (config.layers if config.shared_layers else 1) if isinstance(found, StackParams) else (found,)
    return config.cell, {f"l{k}": layer for k, layer in enumerate(layers)}


def write(cell: str, layers: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the state dict of a `torch.nn` GRU or LSTM with the same outputs. Matrices are multiplied out.

    Args:
      cell: the name of the cell.
      layers: parameters of its step by PyTorch's suffix, as `bound` and `bound_layers` return them.

    Raises:
      UsageError: PyTorch has no such cell, or `cell` is no name.
    """
    if not isinstance(cell, str):
        raise UsageError(
            f"cell is a {type(cell).__name__}: give the name of a cell and the parameters of its layers, as in "
            f"write(*bound({{'l0': (params, network)}}))"
        )
    if cell not in ORDER:
        advice = "the module in network.py, or " if _suits_module(cell, layers) else ""
        raise UsageError(
            f"cell {cell} is none of PyTorch's layers, which are {', '.join(ORDER)} here: use {advice}an exported program, sequence.jax"
        )
    gates = {suffix: [_multiplied_out(getattr(layer, name)) for name in GATES[ORDER[cell]].values()] for suffix, layer in layers.items()}
    return {name: array for suffix, found in gates.items() for name, array in _stacked(suffix, found).items()}


def _suits_module(cell: str, layers: Mapping[str, Any]) -> bool:
    """Return whether `lrpt.interop.factorized` writes a cell that PyTorch has not: a GRU with matrices of kinds that its module has."""
    kinds = (*MATRICES, Bias)
    parts = jax.tree.leaves(dict(layers), is_leaf=lambda part: isinstance(part, kinds))
    return cell == "gru" and all(isinstance(part, kinds) for part in parts)


def _stacked(suffix: str, gates: list[_Gate]) -> dict[str, np.ndarray]:
    parts = {
        "weight_ih": [gate.W.T for gate in gates],
        "weight_hh": [gate.U.T for gate in gates],
        "bias_ih": [gate.b for gate in gates],
        "bias_hh": [gate.c for gate in gates],
    }
    return {f"{name}_{suffix}": np.concatenate(arrays).astype(np.float32) for name, arrays in parts.items()}


def _multiplied_out(gate: Any) -> _Gate:
    """Return the dense matrices of a gate, and its two biases."""
    with jax.default_matmul_precision("highest"):
        W, U = np.asarray(gate.input.to_dense()), np.asarray(gate.recurrent.to_dense())
    b = np.asarray(gate.bias.bias)
    return _Gate(W, U, b, np.asarray(gate.recurrent_bias.bias) if hasattr(gate, "recurrent_bias") else np.zeros_like(b))


def _of_flax(part: Mapping[str, np.ndarray], cell: str) -> dict[str, _Gate]:
    _check_biases(part, [f"{name}.bias" for name in FLAX_BIASES[cell]], FLAX[cell])
    n = _shape(part, "h" + next(iter(GATES[cell])) + ".kernel")[1]
    m = _shape(part, "i" + next(iter(GATES[cell])) + ".kernel")[0]

    def gate(letter: str) -> _Gate:
        W, U = _take(part, f"i{letter}.kernel", (m, n)), _take(part, f"h{letter}.kernel", (n, n))
        return _Gate(W, U, _bias(part, f"i{letter}.bias", n), _bias(part, f"h{letter}.bias", n))

    return {ours: gate(letter) for letter, ours in GATES[cell].items()}


def _cell_of_pytorch(part: Mapping[str, np.ndarray], suffix: str) -> str:
    """Return the name of the cell, given by the number of stacked gates."""
    rows, columns = _shape(part, f"weight_hh{suffix}")
    cells = {len(gates): cell for cell, gates in GATES.items()}
    if f"weight_hr{suffix}" in part or rows % columns or rows // columns not in cells:
        raise UsageError(f"weight_hh{suffix} of shape {(rows, columns)} fits no GRU or LSTM without projections: only these can be read")
    return cells[rows // columns]


def _of_pytorch(part: Mapping[str, np.ndarray], cell: str, suffix: str) -> dict[str, _Gate]:
    _check_biases(part, [f"bias_ih{suffix}", f"bias_hh{suffix}"], PYTORCH)
    rows, n = _shape(part, f"weight_hh{suffix}")
    m = _shape(part, f"weight_ih{suffix}")[1]
    stacked = (
        _take(part, f"weight_ih{suffix}", (rows, m)),
        _take(part, f"weight_hh{suffix}", (rows, n)),
        _bias(part, f"bias_ih{suffix}", rows),
        _bias(part, f"bias_hh{suffix}", rows),
    )
    gates = zip(*(np.split(array, len(GATES[cell])) for array in stacked), strict=True)
    return {ours: _Gate(W.T, U.T, b, c) for ours, (W, U, b, c) in zip(GATES[cell].values(), gates, strict=True)}


def _tree(cell: str, gates: Mapping[str, _Gate]) -> dict[str, Any]:
    """Build the parameter tree with the names of `lrpt.parametrizations`. Two biases whose sum is all that matters become one."""
    biases = {name: gate.b + gate.c for name, gate in gates.items()}
    if cell == "gru_cudnn":
        biases |= {"candidate": gates["candidate"].b, "candidate_recurrent_bias": gates["candidate"].c}
    tree = {
        "recurrent": {name: {"kernel": gate.U} for name, gate in gates.items()},
        "input": {name: {"kernel": gate.W} for name, gate in gates.items()},
        "bias": biases,
    }
    return jax.tree.map(lambda array: np.asarray(array, np.float32), tree)


def _shape(part: Mapping[str, np.ndarray], name: str) -> tuple[int, int]:
    found = part.get(name)
    if found is None or found.ndim != 2 or not found.size:
        raise UsageError(f"array '{name}' {'is missing' if found is None else f'has shape {found.shape}'}: expected a matrix")
    return found.shape[0], found.shape[1]


def _take(part: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...]) -> np.ndarray:
    if name not in part:
        raise UsageError(f"array '{name}' of shape {shape} is missing: give all arrays of the cell")
    if part[name].shape != shape:
        raise UsageError(f"array '{name}' has shape {part[name].shape}: beside the other arrays, {shape} was expected")
    return finite_float32(name, part[name])


def _check_biases(part: Mapping[str, np.ndarray], needed: Sequence[str], names: _Names) -> None:
    """Raise a UsageError if an array of a cell has an unknown name, or if a bias is missing and another one is there.

    Both packages have all biases of a network, in all layers and directions, or none. A misspelt bias must not be read as zeros.

    Args:
      part: arrays by name, those of other layers included.
      needed: names of the biases of the cell.
      names: names of arrays in the package.
    """
    similar = [name for name in part if re.fullmatch(names.similar, name)]
    if unknown := [name for name in similar if not re.fullmatch(names.known, name)]:
        raise UsageError(f"array '{unknown[0]}' is none of a GRU or LSTM: rename it, for example to '{needed[-1]}', or leave it out")
    present = [name for name in similar if re.fullmatch(names.bias, name)]
    missing = [name for name in needed if name not in part]
    if present and missing:
        raise UsageError(f"array '{missing[0]}' is missing, and '{present[0]}' is there: give all biases of the network, or none")


def _bias(part: Mapping[str, np.ndarray], name: str, size: int) -> np.ndarray:
    """Return a bias, or zeros if the cell has no such bias."""
    return _take(part, name, (size,)) if name in part else np.zeros(size, np.float32)
