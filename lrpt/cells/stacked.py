"""Stacks: several layers of a cell within each step, which are a cell again."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, PyTree

from lrpt.cells.cell import Cell, CellSpec, Schedule, Stream, in_group
from lrpt.errors import UsageError


class StackParams(NamedTuple):
    """Parameters of the layers, first to last; a single entry if all layers share their parameters."""

    layers: tuple[Any, ...]


def layer_of(template: PyTree, path: tuple[Any, ...]) -> int | None:
    """Return the number, from 0, of the layer that the leaf of a template at `path` belongs to. Return None if the cell is no stack."""
    return path[1].idx if isinstance(template, StackParams) else None


@cache
def stacked(cell: Cell, layers: int, shared: bool = False) -> Cell:
    """Return a cell that is a stack of layers of another cell.

    In each step the input of layer k + 1 is the output of layer k, or its `cell.stream`. Each layer keeps its own state through time. The
    first layer gets the input, the last layer gives the output. The carry and the info are tuples with an entry for each layer. Parameters
    are named `layers_0_...`. Tied matrices share R only with others of their layer.

    Args:
      cell: the cell of each layer.
      layers: the number of layers.
      shared: whether all layers share their parameters, as a grid LSTM of Kalchbrenner et al. (2016) that is tied along its depth. Inputs
        are then as wide as outputs.

    Raises:
      UsageError: fewer layers than one; from the template, widths that do not fit.
    """
    if layers < 1:
        raise UsageError(f"layers is {layers}: expected 1 or more")

    def template(spec: CellSpec) -> PyTree:
        return StackParams(_layers(cell, spec, layers, shared))

    def carry(spec: CellSpec) -> PyTree:
        return tuple(map(cell.carry, _specs(cell, spec, layers)))

    def output_size(spec: CellSpec) -> int:
        return cell.output_size(_specs(cell, spec, layers)[-1])

    step = _step(cell, layers, shared)
    return replace(
        cell,
        step=step,
        template=template,
        carry=carry,
        output_size=output_size,
        stream=None,
        penalty=cell.penalty and partial(_penalty, cell.penalty),
        schedule=cell.schedule and partial(_schedule, cell.schedule),
    )


def _penalty(penalty: Callable[[Any], Array], params: StackParams) -> Array:
    return jnp.stack([penalty(layer) for layer in params.layers]).sum()


def _schedule(schedule: Callable[[Any], Schedule], infos: tuple[Any, ...]) -> Schedule:
    return Schedule(*(jnp.concatenate(of_layers, axis=-1) for of_layers in zip(*map(schedule, infos), strict=True)))


def _specs(cell: Cell, spec: CellSpec, layers: int) -> list[CellSpec]:
    """Return the sizes of each layer: the inputs of one are the outputs of the layer below it."""
    specs = [spec]
    for _ in range(layers - 1):
        specs.append(replace(spec, input_size=cell.output_size(specs[-1])))
    return specs


def _layers(cell: Cell, spec: CellSpec, layers: int, shared: bool) -> tuple[Any, ...]:
    specs = _specs(cell, spec, layers)
    other = next((own.input_size for own in specs if own.input_size != spec.input_size), None)
    if shared and other is not None:
        raise UsageError(
            f"layers that share their parameters have inputs of widths {spec.input_size} and {other}: make them equal, or give each layer "
            f"its own parameters"
        )
    templates = [cell.template(own) for own in specs[: 1 if shared else layers]]
    return tuple(in_group(layer, f"layers_{k}") for k, layer in enumerate(templates))


def _step(cell: Cell, layers: int, shared: bool) -> Callable[..., tuple[Any, tuple[Array, Any]]]:
    stream = cell.stream or Stream(cell.step, lambda x: x, lambda y: y)

    def step(params: StackParams, carry: tuple[Any, ...], x: PyTree) -> tuple[tuple[Any, ...], tuple[Array, tuple[Any, ...]]]:
        state, infos, passed = [], [], stream.enter(x)
        for own, h in zip(params.layers * layers if shared else params.layers, carry, strict=True):
            h, (passed, info) = stream.step(own, h, passed)
            state.append(h)
            infos.append(info)
        return tuple(state), (stream.leave(passed), tuple(infos))

    return step
