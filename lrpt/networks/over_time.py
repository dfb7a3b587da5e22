"""The recurrent part of a network over sequences, in the form that `lrpt.recur` and the analyses take."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxtyping import Array, Float, Int

from lrpt.networks.recurrent import Recurrent, cell_params, initial_carry
from lrpt.parametrizations import FROZEN


class OverTime(NamedTuple):
    """The first arguments of `lrpt.recur`.

    Attributes:
      step: the step of the cell, `(params, carry, x) -> (carry, (y, info))`.
      params: its parameters, with matrices as in `lrpt.matrices`.
      carry: the state before the first step, with a row for each sequence.
      xs: what the cell reads, with the axis of time first.
    """

    step: Callable[[Any, Any, Any], tuple[Any, tuple[Any, Any]]]
    params: Any
    carry: Any
    xs: Float[Array, "t b m"] | Int[Array, "t b"]


def over_time(network: Recurrent, variables: Mapping[str, Any], xs: Float[Array, "t b m"] | Int[Array, "t b"]) -> OverTime:
    """Return (step, params, carry, xs) of a network's recurrent part.

        _, (ys, gates) = lrpt.recur(*over_time(network, variables, xs), outputs="info")     # of all steps

    Args:
      network: the recurrent part, `lrpt.networks.sequence_model.recurrent_of(config, input_size)`.
      variables: variables of the whole `SequenceModel`, with settings of its cell and frozen matrices, if it has such collections.
      xs: inputs of the recurrent part, with the axis of time first.

    Raises:
      UsageError: the variables are not those of the network.
    """
    own = {name: tree["recurrent"] for name, tree in variables.items() if "recurrent" in tree}
    params, others = own["params"], (own.get("settings"), own.get(FROZEN))
    carry = initial_carry(params, network, xs.shape[1], *others, xs=xs)
    return OverTime(network.cell.step, cell_params(params, network, *others), carry, xs)
