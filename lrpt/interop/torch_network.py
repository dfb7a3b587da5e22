"""A recurrent network with low-rank matrices in PyTorch. This file needs PyTorch and NumPy only; lrpt writes it beside the weights.

    network = Network.load("network.npz")
    outputs, state = network(inputs)           # (batch, time, features), or (batch, time) symbols
    outputs, state = network(more, state)      # continues the sequences

It can be trained and saved like every other module. A matrix is the sum of what it has: `kernel`,
right^T left, and diag(diagonal).
"""

import json
import os
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor, nn  # pyright: ignore[reportMissingImports]


class Node(nn.Module):
    """Parameters by dotted name: `gate.recurrent.left` is the attribute of that path."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        super().__init__()
        parts: dict[str, dict[str, np.ndarray]] = {}
        for name, array in arrays.items():
            first, _, rest = name.partition(".")
            if rest:
                parts.setdefault(first, {})[rest] = array
            else:
                self.register_parameter(name, nn.Parameter(torch.tensor(array)))
        for name, part in parts.items():
            self.add_module(name, Node(part))

    def __getattr__(self, name: str) -> Any:  # so that type checkers expect any attribute
        return super().__getattr__(name)

    def forward(self, v: Tensor) -> Tensor:
        """Return v W for a matrix W."""
        terms = []
        if hasattr(self, "kernel"):
            terms.append(v @ self.kernel)
        if hasattr(self, "left"):
            terms.append((v @ self.right.T) @ self.left)
        if hasattr(self, "diagonal"):
            terms.append(v * self.diagonal)
        return sum(terms[1:], terms[0])


def affine(gate: Any, x: Tensor, h: Tensor) -> Tensor:
    """Return x W + h U + b."""
    return gate.input(x) + gate.recurrent(h) + gate.bias


def gru(cell: Any, state: tuple[Tensor, ...], x: Tensor) -> tuple[Tensor, ...]:
    """Compute a step of the GRU with the reset gate before the product."""
    (h,) = state
    u, r = torch.sigmoid(affine(cell.update, x, h)), torch.sigmoid(affine(cell.reset, x, h))
    return ((1 - u) * torch.tanh(affine(cell.candidate, x, r * h)) + u * h,)


def gru_reset_after(cell: Any, state: tuple[Tensor, ...], x: Tensor) -> tuple[Tensor, ...]:
    """Compute a step of the GRU with the reset gate after the product, as `nn.GRU` does."""
    (h,), m = state, cell.candidate
    u, r = torch.sigmoid(affine(cell.update, x, h)), torch.sigmoid(affine(cell.reset, x, h))
    product = m.recurrent(h) + m.recurrent_bias if hasattr(m, "recurrent_bias") else m.recurrent(h)
    return ((1 - u) * torch.tanh(m.input(x) + m.bias + r * product) + u * h,)


def lstm(cell: Any, state: tuple[Tensor, ...], x: Tensor) -> tuple[Tensor, ...]:
    """Compute a step of the LSTM; the state is (h, c)."""
    h, c = state
    i, f = torch.sigmoid(affine(cell.input, x, h)), torch.sigmoid(affine(cell.forget, x, h))
    c = f * c + i * torch.tanh(affine(cell.candidate, x, h))
    return torch.sigmoid(affine(cell.output, x, h)) * torch.tanh(c), c


STEPS = {"gru": gru, "gru_reset_after": gru_reset_after, "gru_cudnn": gru_reset_after, "lstm": lstm}
STATES = {"lstm": 2}


class Network(nn.Module):
    """Recurrent layers in one or both directions, with an embedding and a readout if there are any.

    Args:
      config: `cell`, a name in STEPS; `reads`, 'last' or 'all' steps; `layers`, the names of the directions of each layer; `scaling`,
        mean and standard deviation of `inputs` and `predictions` if they are scaled.
      arrays: parameters by dotted name.
    """

    def __init__(self, config: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        super().__init__()
        self.config = config
        self.root: Any = Node(arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Network":
        """Return the network in a file. Nothing in the file is run."""
        with np.load(path, allow_pickle=False) as stored:
            arrays = dict(stored)
        return cls(json.loads(arrays.pop("config").item()), arrays)

    def forward(self, inputs: Tensor, state: dict[str, tuple[Tensor, ...]] | None = None) -> tuple[Tensor, dict[str, tuple[Tensor, ...]]]:
        """Return (predictions, or outputs without a readout; the state after the last step), in the units of the data."""
        xs, last = self.vectors(inputs), {}
        for directions in self.config["layers"]:
            outputs = []
            for name in directions:
                start = self.start(name, len(xs)) if state is None else state[name]
                ys, last[name] = self.run(name, start, xs)
                outputs.append(ys)
            xs = torch.cat(outputs, -1)
        return self.restored(self.predictions(xs[:, -1] if self.config["reads"] == "last" else xs)), last

    def vectors(self, inputs: Tensor) -> Tensor:
        """Return the vectors that the first layer reads. Integers (b, t) are symbols; integers (b, t, m) are numbers."""
        kind = next(self.parameters()).dtype
        if not inputs.is_floating_point():
            inputs = nn.functional.one_hot(inputs.long(), self.config["input_size"]).to(kind) if inputs.dim() == 2 else inputs.to(kind)
        inputs = self.standardized(inputs)
        if not hasattr(self.root, "embedding"):
            return inputs
        rows = inputs @ self.root.embedding.table
        return rows @ self.root.embedding.spread if hasattr(self.root.embedding, "spread") else rows

    def standardized(self, inputs: Tensor) -> Tensor:
        """Return (inputs - mean) / standard deviation if inputs are scaled."""
        found = self.config.get("scaling", {}).get("inputs")
        return inputs if found is None else (inputs - inputs.new_tensor(found["mean"])) / inputs.new_tensor(found["standard_deviation"])

    def restored(self, ys: Tensor) -> Tensor:
        """Return predictions * standard deviation + mean if predictions are scaled."""
        found = self.config.get("scaling", {}).get("predictions")
        return ys if found is None else ys * ys.new_tensor(found["standard_deviation"]) + ys.new_tensor(found["mean"])

    def start(self, name: str, batch: int) -> tuple[Tensor, ...]:
        """Return the state before the first step of a layer: trained, or zeros."""
        if hasattr(self.root, "initial"):
            stored = getattr(self.root.initial, name)
            return tuple(getattr(stored, part).expand(batch, -1) for part in ("h", "c") if hasattr(stored, part))
        first = next(iter(getattr(self.root, name).children())).bias
        return (first.new_zeros(batch, len(first)),) * STATES.get(self.config["cell"], 1)

    def run(self, name: str, state: tuple[Tensor, ...], xs: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return (outputs in the order of the inputs, the state after the last step) of one direction of a layer."""
        step, cell, ys = STEPS[self.config["cell"]], getattr(self.root, name), []
        backwards = name.endswith("_reverse")
        for x in (xs.flip(1) if backwards else xs).unbind(1):
            state = step(cell, state, x)
            ys.append(state[0])
        outputs = torch.stack(ys, 1)
        return outputs.flip(1) if backwards else outputs, state

    def predictions(self, ys: Tensor) -> Tensor:
        """Return the readout of outputs, or the outputs if there is none."""
        if not hasattr(self.root, "readout"):
            return ys
        readout = self.root.readout
        if hasattr(readout, "kernel"):
            return ys @ readout.kernel + readout.bias
        embedding = self.root.embedding
        rows = ys @ embedding.spread.T if hasattr(embedding, "spread") else ys
        return rows @ embedding.table.T + readout.bias
