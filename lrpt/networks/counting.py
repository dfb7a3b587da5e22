"""How many parameters a model has, from the shapes of its own parameters; no number is written down."""

from typing import NamedTuple

import jax

from lrpt.matrices import num_params
from lrpt.networks.protocol import NetworkConfig
from lrpt.networks.sequence_model import ModelConfig


class Counts(NamedTuple):
    """The size of a model.

    Attributes:
      true: every trainable scalar.
      paper: the convention by which Miceli Barone 2016 and 2018 count GRUs (Tables 1 and 2, text of the copy task): the input matrix of
        one gate is counted, those of the others and the initial state are not.
    """

    true: int
    paper: int


def count(config: NetworkConfig, input_size: int, output_size: int) -> Counts:
    """The parameters of a network; where it is not a recurrent one, both counts are the true one.

    Args:
      config: the network.
      input_size: width of the inputs, or the number of symbols.
      output_size: width of the predictions.

    Raises:
      UsageError: the configuration does not fit together, for example a rank above the size.
    """
    true = num_params(config.parameter_shapes(input_size, output_size))
    if not isinstance(config, ModelConfig):
        return Counts(true, true)
    parts = count_parts(config, input_size, output_size)
    return Counts(true, true - parts["further_input"] - parts["initial_state"])


def averaged_bytes(config: NetworkConfig, input_size: int, output_size: int, figures: int = 2) -> int:
    """Bytes that devices which share a batch average at every update, each of its own: one number for each parameter, and `figures`.

    A ring sends 2 (N - 1) / N times as many from each of N devices. Statistics of batch normalization come on top.

    Args:
      figures: scalars that a task reports beside the gradient, 'loss' among them.
    """
    shapes = config.parameter_shapes(input_size, output_size)
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes)) + 4 * figures


def count_parts(config: ModelConfig, input_size: int, output_size: int) -> dict[str, int]:
    """The parameters of a `SequenceModel` by what they are for, in a sum that is the true count.

    'recurrent' (all gates), 'bias', 'operator' (of cells that have operators of their own), 'input' (one gate's matrix, with the projection
    R that tied gates share), 'further_input' (what the input matrices of the other gates add), 'embedding', 'initial_state' and 'readout'
    (matrix and bias, or only the bias where the matrix is that of the embedding). Scales of weight normalization are counted with their
    matrices.
    """
    params = config.parameter_shapes(input_size, output_size)
    cell = params["recurrent"]["cell"]
    stored = {role: [cell.get(name, {}) for name in (role, f"{role}_scale")] for role in ("recurrent", "input")}
    further = sum(_further_gates(part) for part in stored["input"])
    return {
        "recurrent": num_params(stored["recurrent"]),
        "bias": num_params(cell.get("bias")),
        "operator": num_params(cell.get("operator")),
        "input": num_params(stored["input"]) - further,
        "further_input": further,
        "initial_state": num_params(params["recurrent"].get("initial_state")),
        "embedding": num_params(params.get("embedding")),
        "readout": num_params((params.get("readout"), params.get("readout_bias"))),
    }


def _further_gates(part: dict[str, object]) -> int:
    """What the entries of all gates but the largest add up to; a shared projection is nobody's."""
    sizes = [num_params(factors) for name, factors in part.items() if not name.startswith("shared")]
    return sum(sizes) - max(sizes, default=0)
