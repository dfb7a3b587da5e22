"""Contenders in PyTorch, which need not be installed: its own recurrent layers, and a low-rank GRU in a loop over time."""

from collections.abc import Callable
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

from experiments.benchmark.workloads import Workload, make_task


class Layer(nn.Module):
    """An `nn.GRU` or `nn.LSTM` with a readout."""

    def __init__(self, w: Workload) -> None:
        super().__init__()
        kind = nn.LSTM if w.model.cell == "lstm" else nn.GRU
        self.recurrent, self.readout, self.all = kind(w.input_size, w.model.size), nn.Linear(w.model.size, w.output_size), w.reads == "all"
        self.lengths = torch.as_tensor(w.lengths) if w.ragged else None

    def forward(self, xs: Any) -> Any:
        if self.lengths is None:
            ys, _ = self.recurrent(xs)
        else:
            packed, _ = self.recurrent(nn.utils.rnn.pack_padded_sequence(xs, self.lengths, enforce_sorted=False))
            ys, _ = nn.utils.rnn.pad_packed_sequence(packed, total_length=len(xs))
        return self.readout(ys if self.all else ys[-1])


class LowRankGRU(nn.Module):
    """A straightforward low-rank-plus-diagonal GRU: concatenated gates, and input projections outside the loop."""

    def __init__(self, w: Workload) -> None:
        super().__init__()
        n, d = w.model.size, w.model.matrices.rank
        self.after, self.all = w.model.cell == "gru_reset_after", w.reads == "all"
        self.input, self.readout = nn.Linear(w.input_size, 3 * n), nn.Linear(n, w.output_size)
        shapes = {"right": (3, n, d), "left": (3, d, n), "diagonal": (3, n)}
        self.factors = nn.ParameterDict({name: 0.1 * torch.randn(shape) for name, shape in shapes.items()})

    def product(self, gate: int, v: Any) -> Any:
        return v @ self.factors["right"][gate] @ self.factors["left"][gate] + v * self.factors["diagonal"][gate]

    def step(self, h: Any, x: Any) -> Any:
        x_u, x_r, x_m = x.chunk(3, -1)
        u, r = torch.sigmoid(x_u + self.product(0, h)), torch.sigmoid(x_r + self.product(1, h))
        m = torch.tanh(x_m + (r * self.product(2, h) if self.after else self.product(2, h * r)))
        return u * h + (1 - u) * m

    def forward(self, xs: Any) -> Any:
        h = xs.new_zeros(xs.shape[1], self.readout.in_features)
        states = []
        for x in self.input(xs):
            h = self.step(h, x)
            states.append(h)
        return self.readout(torch.stack(states) if self.all else h)


def build(workload: Workload, low_rank: bool) -> tuple[Callable[[], Any], Callable[[], Any], int]:
    """Return a function for one update, a function for one forward pass, and the number of parameters. A GPU is used if there is one."""
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    inputs, targets, *mask = make_task(workload).splits["train"].arrays
    counts = torch.as_tensor(mask[0].T.copy()).flatten() if mask else slice(None)
    xs = torch.as_tensor(inputs).transpose(0, 1).contiguous()
    xs = nn.functional.one_hot(xs.long(), workload.input_size).float() if workload.symbols else xs
    ts = torch.as_tensor(targets.swapaxes(0, 1).copy() if workload.reads == "all" else targets)
    xs, ts = xs.to(device), ts.to(device)
    model = (LowRankGRU(workload) if low_rank else Layer(workload)).to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-4, alpha=0.9)

    def loss() -> Any:
        predictions = model(xs)
        if workload.output_size == 1:
            return torch.mean((predictions[..., 0] - ts) ** 2)
        return nn.functional.cross_entropy(predictions.flatten(0, -2)[counts], ts.flatten().long()[counts])

    def train() -> None:
        optimizer.zero_grad()
        loss().backward()
        nn.utils.clip_grad_value_(model.parameters(), 1.0)
        optimizer.step()
        wait()

    def forward() -> None:
        with torch.no_grad():
            loss()
        wait()

    return train, forward, sum(p.numel() for p in model.parameters())
