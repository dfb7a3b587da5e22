"""Contenders of the benchmark. Each is built in its own process, with its own flags and threads."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from experiments.benchmark.workloads import Workload, make_task, sizes
from lrpt.cells.variable_computation import BASE
from lrpt.devices import parallel
from lrpt.networks.configuration import TiedStorageConfig
from lrpt.networks.sequence_model import ModelConfig, suits_kernel
from lrpt.optim import OptimConfig
from lrpt.training.step import Collectives, forward, init_state, train_step, train_steps

UPDATES = 8
"""Updates per call of contenders that make several."""

WIDE = "--xla_cpu_prefer_vector_width=512"
TWO = "--xla_force_host_platform_device_count=2"


@dataclass
class Timed:
    """A compiled contender.

    Attributes:
      train: makes one call and waits for it.
      forward: computes the loss of the batch and waits; None if another contender already measures that.
      updates: updates per call of `train`, of all models together.
      metrics: parameters, operations, memory, compile time.
    """

    train: Callable[[], Any]
    forward: Callable[[], Any] | None
    updates: int
    metrics: dict[str, Any]


def always(workload: Workload) -> bool:
    """Return true: the contender supports every workload."""
    return True


@dataclass(frozen=True)
class Contender:
    """A way to train a workload's network.

    Attributes:
      about: its description in one line.
      build: compiles it.
      flags: flags of XLA.
      threads: threads of PyTorch; None for other contenders, which use all available threads.
      fits: whether it supports the workload's cell.
      accelerated: whether it needs an NVIDIA GPU.
    """

    about: str
    build: Callable[[Workload], Timed]
    flags: tuple[str, ...] = ()
    threads: int | None = None
    fits: Callable[[Workload], bool] = always
    accelerated: bool = False


Build = Callable[[Workload], tuple[nn.Module, ModelConfig]]


class DenseNetwork(nn.Module):
    """The dense twin of a workload's network: a recurrent layer from elsewhere, and a readout.

    Attributes:
      workload: the workload.
      layer: maps inputs (b, t, m) to the outputs (b, t, n) and the last output (b, n).
    """

    workload: Workload
    layer: Callable[[Array], tuple[Array, Array]]

    def __call__(self, inputs: Array, mask: None = None) -> Array:
        return self.advance(inputs)[0]

    @nn.compact
    def advance(self, inputs: Array, mask: None = None, start: None = None, *, train: bool = False) -> tuple[Array, Any]:
        w = self.workload
        ys, last = self.layer(jax.nn.one_hot(inputs, w.input_size) if w.symbols else inputs)
        return nn.Dense(w.output_size)(ys if w.reads == "all" else last), last


class FlaxLayer(nn.Module):
    """`flax.linen.RNN` with Flax's own cell, as wide as the workload's network."""

    workload: Workload

    @nn.compact
    def __call__(self, xs: Array) -> tuple[Array, Array]:
        w = self.workload
        cell = {"gru": nn.GRUCell, "gru_reset_after": nn.GRUCell, "lstm": nn.OptimizedLSTMCell}[w.model.cell](w.model.size)
        carry, ys = nn.RNN(cell, return_carry=True)(xs)
        return ys, carry[1] if isinstance(carry, tuple) else carry


class CudnnLSTM(nn.Module):
    """An LSTM as wide as the workload's network, computed by cuDNN through `jax.experimental.rnn`."""

    workload: Workload

    @nn.compact
    def __call__(self, xs: Array) -> tuple[Array, Array]:
        from jax.experimental import rnn

        w, batch = self.workload, xs.shape[0]
        shape: tuple[int, int, int, bool] = (w.input_size, w.model.size, 1, False)  # one layer, in one direction
        weights = self.param("weights", lambda key: rnn.init_lstm_weight(key, *shape))
        zero, lengths = jnp.zeros((1, batch, w.model.size)), jnp.full(batch, w.steps, jnp.int32)
        lstm: Any = rnn.lstm
        ys, h, _ = lstm(xs, zero, zero, weights, lengths, *shape[:3], 0.0, shape[3])
        return ys, h[0]


def lrpt_network(
    recurrence: str, parametrization: str | None = None, pack: str = "auto", chunk: int | None = None, unroll: int | None = None
) -> Build:
    """Return a builder of this library's model with the given loop, and optionally with other matrices than the workload's."""

    def network(w: Workload) -> tuple[nn.Module, ModelConfig]:
        changes = {"recurrence": recurrence, "pack": pack, "chunk": chunk, "unroll": unroll}
        config = replace(w.model, **changes | ({"parametrization": parametrization, "tied": False} if parametrization else {}))
        return config.build(w.input_size, w.output_size, w.reads), config

    return network


def equal_operations(w: Workload) -> tuple[nn.Module, ModelConfig]:
    """Build the usual unit with as many multiplications as a unit with variable computation at m = 1/2: (n/2)^2 for each n^2."""
    config = ModelConfig(cell=BASE[w.model.cell], size=w.model.size // 2, matrices=TiedStorageConfig("dense"))
    return config.build(w.input_size, w.output_size, w.reads), config


def flax_network(w: Workload) -> tuple[nn.Module, ModelConfig]:
    """Build `flax.linen`'s layer, and the configuration of our network with as many recurrent parameters."""
    return DenseNetwork(w, FlaxLayer(w)), replace(w.model, parametrization="dense", tied=False, trainable_initial_state=False)


def jax_contender(network: Build, workload: Workload, *, updates: int = 1, shards: int = 1, models: int = 1) -> Timed:
    """Compile a network with the library's own training step, so that contenders differ only in the network.

    Several models are stacked on one device. Their times are those of one model: the time of a call, divided by the models.
    """
    model, config = network(workload)
    task, optimizer = make_task(workload), OptimConfig("permuted_mnist").build()
    layout = parallel.Layout(models, shards, models)
    collectives, train = Collectives(parallel.average(layout)), task.splits["train"]
    state = parallel.place(layout, [init_state(model, task, optimizer, seed) for seed in range(models)])
    arrays = parallel.place(layout, [train.arrays] * models)
    indices = parallel.shard_batch(layout, [np.tile(np.arange(workload.batch, dtype=np.int32), (updates, 1))] * models)

    def step(state: PyTree, arrays: PyTree, indices: Any) -> Any:
        if updates > 1:
            return train_steps(model, task, lambda update: optimizer, state, arrays, indices, collectives)
        return train_step(model, task, optimizer, state, train.batch(arrays, indices[0]), collectives)

    def loss(params: PyTree, arrays: PyTree, indices: Any) -> Any:
        return jnp.mean(forward(model, task, {"params": params}, train.batch(arrays, indices[0])).metrics["loss"])

    start = time.perf_counter()
    program = parallel.compile_for(layout, step, donate=(0,)).lower(state, arrays, indices).compile()  # type: ignore[attr-defined]
    seconds = time.perf_counter() - start
    losses = parallel.compile_for(layout, loss)

    def one_call() -> None:
        nonlocal state
        state, metrics = program(state, arrays, indices)
        jax.block_until_ready((state, metrics))

    metrics = {**sizes(workload, config), "temporary_bytes": program.memory_analysis().temp_size_in_bytes, "compile_seconds": seconds}
    alone = (lambda: jax.block_until_ready(losses(state.params, arrays, indices))) if updates == models == 1 else None
    return Timed(one_call, alone, updates * models, metrics)


def cudnn_network(w: Workload) -> tuple[nn.Module, ModelConfig]:
    """Build cuDNN's LSTM, and the configuration of our LSTM with dense matrices of the same width."""
    return DenseNetwork(w, CudnnLSTM(w)), replace(w.model, cell="lstm", parametrization="dense", tied=False, trainable_initial_state=False)


def torch_contender(low_rank: bool, workload: Workload) -> Timed:
    """Build a contender in PyTorch: its own recurrent layer, or a loop over time with low-rank matrices."""
    from experiments.benchmark import pytorch

    train, forward, parameters = pytorch.build(workload, low_rank)
    changes = {} if low_rank else {"parametrization": "dense"}
    config = replace(workload.model, **changes, tied=False)  # the loop shares no projection between gates
    return Timed(train, forward, 1, {**sizes(workload, config), "parameters": parameters})


def has_flax_cell(workload: Workload) -> bool:
    """Return whether Flax and PyTorch have the workload's cell, or one with the same amount of work."""
    return workload.model.cell in ("gru", "gru_reset_after", "lstm")


def is_ragged(workload: Workload) -> bool:
    """Return whether more than half of the steps are padding."""
    return workload.ragged


def is_variable(workload: Workload) -> bool:
    """Return whether the unit has variable computation."""
    return workload.model.cell in BASE


def fits_kernel(workload: Workload) -> bool:
    """Return whether the kernel supports the workload's network."""
    return suits_kernel(workload.model)


def is_gru(workload: Workload) -> bool:
    """Return whether the loop written in PyTorch supports the workload's cell."""
    return workload.model.cell.startswith("gru")


PLAIN = lrpt_network("plain", pack="never", unroll=1)
FAST = lrpt_network("fast")
KERNEL = lrpt_network("kernel", pack="never")
Fits = Callable[[Workload], bool]


def _on_any(about: str, network: Build = FAST, flags: tuple[str, ...] = (WIDE,), fits: Fits = always, **how: int) -> Contender:
    return Contender(about, partial(jax_contender, network, **how), flags, fits=fits)


def _on_gpu(about: str, network: Build, flags: tuple[str, ...] = (), fits: Fits = always, **how: int) -> Contender:
    return replace(_on_any(about, network, flags, fits, **how), accelerated=True)


NO_GRAPHS = "--xla_gpu_enable_command_buffer="
LOOP_GRAPHS = "--xla_gpu_enable_command_buffer=+WHILE"

CONTENDERS = {
    "plain": _on_any("lax.scan and reverse mode, XLA's default flags", PLAIN, flags=()),
    "plain-multi-update": _on_any(f"the same, {UPDATES} updates per call", PLAIN, flags=(), updates=UPDATES),
    "checkpoint": _on_any("chunks recomputed by jax.checkpoint", lrpt_network("checkpoint")),
    "fast": _on_any("the fast loop"),
    "fast-multi-update": _on_any(f"the fast loop, {UPDATES} updates per call", updates=UPDATES),
    "fast-2-devices": _on_any("the fast loop, batch split over two CPU devices", flags=(WIDE, TWO), shards=2),
    "fast-2-devices-multi-update": _on_any(
        f"the same, {UPDATES} updates per call: what the trainer does", flags=(WIDE, TWO), shards=2, updates=UPDATES
    ),
    "fast-dense": _on_any("the fast loop with dense matrices", lrpt_network("fast", "dense")),
    "fast-padded": _on_any(
        "the same, without packing of sentences", lrpt_network("fast", pack="never"), (WIDE, TWO), is_ragged, shards=2, updates=UPDATES
    ),
    "fast-equal-operations": _on_any("the fast loop, the usual unit of equal operations", equal_operations, fits=is_variable),
    "flax": _on_any("flax.linen.RNN, dense matrices, XLA's default flags", flax_network, (), has_flax_cell),
    "flax-multi-update": _on_any(f"the same, {UPDATES} updates per call", flax_network, (), has_flax_cell, updates=UPDATES),
    "torch": Contender("torch.nn.GRU or LSTM, dense matrices, 1 thread", partial(torch_contender, False), threads=1, fits=has_flax_cell),
    "torch-2-threads": Contender("the same, 2 threads", partial(torch_contender, False), threads=2, fits=has_flax_cell),
    "torch-low-rank": Contender(
        "PyTorch, a loop over time with low-rank matrices, 2 threads", partial(torch_contender, True), threads=2, fits=is_gru
    ),
}

CONTENDERS |= {
    "plain-no-graphs": _on_gpu("`plain` without command buffers", PLAIN, (NO_GRAPHS,)),
    "plain-loop-graphs": _on_gpu("`plain`, its loops in command buffers", PLAIN, (LOOP_GRAPHS,)),
    "checkpoint-loop-graphs": _on_gpu("`checkpoint`, its loops in command buffers", lrpt_network("checkpoint"), (LOOP_GRAPHS,)),
    "fast-no-graphs": _on_gpu("`fast` without command buffers", FAST, (NO_GRAPHS,)),
    "fast-loop-graphs": _on_gpu("`fast`, its loops in command buffers", FAST, (LOOP_GRAPHS,)),
    "plain-unrolled": _on_gpu("`plain`, several steps in an iteration", lrpt_network("plain", pack="never")),
    "fast-not-unrolled": _on_gpu("`fast`, one step in an iteration", lrpt_network("fast", unroll=1)),
    "fast-chunk-112": _on_gpu("`fast` with chunks of 112 steps", lrpt_network("fast", chunk=112)),
    "fast-one-chunk": _on_gpu("`fast` with one chunk for all steps", lrpt_network("fast", chunk=1000)),
    "flax-loop-graphs": _on_gpu("`flax`, its loops in command buffers", flax_network, (LOOP_GRAPHS,), has_flax_cell),
    "cudnn-lstm": _on_gpu("an LSTM by cuDNN through jax.experimental.rnn, dense matrices", cudnn_network),
    "kernel": _on_gpu("the persistent kernel", KERNEL, fits=fits_kernel),
    "kernel-multi-update": _on_gpu(f"the same, {UPDATES} updates per call", KERNEL, fits=fits_kernel, updates=UPDATES),
}


def _stacked(models: int) -> dict[str, Contender]:
    """Return contenders that train several models of one shape in one program."""
    how = f"{models} models stacked, time for one"
    return {
        f"plain-{models}-models": _on_gpu(f"`plain`, {how}", PLAIN, models=models),
        f"fast-{models}-models": _on_gpu(f"`fast`, {how}", FAST, models=models),
        f"flax-{models}-models": _on_gpu(f"`flax`, {how}", flax_network, fits=has_flax_cell, models=models),
        f"kernel-{models}-models": _on_gpu(f"`kernel`, {how}", KERNEL, fits=fits_kernel, models=models),
    }


CONTENDERS |= _stacked(8) | _stacked(32)
