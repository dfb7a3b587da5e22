"""Counts of parameters, computed from the shapes of a model's own parameters."""

from collections.abc import Set
from typing import Any, NamedTuple

import flax.linen as nn
import jax
from jaxtyping import PyTree

from lrpt.errors import UsageError
from lrpt.matrices import ROW_NORMS, num_params
from lrpt.networks.conditional import ConditionalConfig
from lrpt.networks.layers import Layered
from lrpt.networks.protocol import NetworkConfig
from lrpt.networks.registered import cached_by_tables
from lrpt.networks.sequence_model import ModelConfig, recurrent_of
from lrpt.specs import MatrixSpec, name_of


class Counts(NamedTuple):
    """Sizes of a model.

    Attributes:
      true: number of trainable scalars.
      paper: number by the convention of Miceli Barone 2016 and 2018 for GRUs (Tables 1 and 2, text of the copy task). In each
        layer it counts the input matrix of one gate only, and it counts no initial state.
    """

    true: int
    paper: int


def count(config: NetworkConfig, input_size: int, output_size: int) -> Counts:
    """Count the parameters of a network. Both counts are equal if it is no `ModelConfig`.

    Args:
      config: configuration of the network.
      input_size: width of the inputs, or the number of symbols.
      output_size: width of the predictions.

    Raises:
      UsageError: `config` is no configuration of a network; the settings contradict each other, for example a rank above the size.
    """
    params = _shapes(config, input_size, output_size)
    true = num_params(params)
    if not isinstance(config, ModelConfig):
        return Counts(true, true)
    parts = count_parts(config, input_size, output_size)
    return Counts(true, true - parts["further_input"] - parts["initial_state"])


def averaged_bytes(config: NetworkConfig, input_size: int, output_size: int, num_metrics: int = 2) -> int:
    """Return the bytes that each device contributes to the average of an update: the gradient and `num_metrics` metrics.

    These are 4 (P + num_metrics) bytes for P trainable parameters in float32. A ring sends 2 (N - 1) / N times this number of bytes from
    each of N devices. Statistics of batch normalization are not included.

    Args:
      config: configuration of the network.
      input_size: width of the inputs, or the number of symbols.
      output_size: width of the predictions.
      num_metrics: number of scalar metrics of a task, including 'loss'.
    """
    shapes = _shapes(config, input_size, output_size)
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes)) + 4 * num_metrics


def count_parts(config: ModelConfig | ConditionalConfig, input_size: int, output_size: int) -> dict[str, int]:
    """Count the parameters of a recurrent network by purpose. The sum is the true count.

    'recurrent' (all gates), 'bias', 'operator' (for cells with their own operators), 'input' (in each layer, one gate's matrix and the
    projection R that tied gates share), 'further_input' (the input matrices of the other gates), 'embedding', 'initial_state' and 'readout'
    (matrix and bias, or only the bias if the readout uses the embedding matrix). Scales of weight normalization are counted with their
    matrices. Of a conditional network, the matrix Q between the levels is counted as an input matrix.
    """
    network, params = config.build(input_size, output_size, "all"), _shapes(config, input_size, output_size)
    return _by_purpose(params, network, _input_gates(config, input_size, output_size))


def count_in_step(config: NetworkConfig, input_size: int, output_size: int) -> int:
    """Count the weights by which a network multiplies at each step: its recurrent and input matrices, and operators of the cell's own.

    Matrices that all layers share are counted once for each layer, because each layer multiplies by them.

    Embeddings are not counted, because symbols are looked up; neither are readouts, biases and initial states. Of a network that is not a
    `SequenceModel`, all parameters are counted.
    """
    if not isinstance(config, ModelConfig):
        return count(config, input_size, output_size).true
    parts = count_parts(config, input_size, output_size)
    own = sum(parts[name] for name in ("recurrent", "operator", "input", "further_input"))
    return own * (config.layers if config.shared_layers else 1)


def _shapes(config: NetworkConfig, input_size: int, output_size: int) -> Any:
    """Return the shapes of the parameters. They are kept, because commands count a network several times, and tracing it takes a while.

    Raises:
      UsageError: `config` is no configuration of a network.
    """
    if isinstance(config, type) or not hasattr(config, "parameter_shapes"):
        given = config.__name__ if isinstance(config, type) else repr(config)
        raise UsageError(f"config is {given}: give the configuration of a network, such as lrpt.ModelConfig('gru', 128)")
    return _shapes_of(config, input_size, output_size)


@cached_by_tables
def _shapes_of(config: NetworkConfig, input_size: int, output_size: int) -> Any:
    return config.parameter_shapes(input_size, output_size)


def _input_gates(config: ModelConfig | ConditionalConfig, input_size: int, output_size: int) -> set[str]:
    """Return the names of the gates that have an input matrix."""
    is_sequence_model = isinstance(config, ModelConfig)
    network = recurrent_of(config, input_size) if is_sequence_model else config.build(input_size, output_size, "all")
    leaves = jax.tree_util.tree_leaves_with_path(network.cell.template(network.spec))
    return {name_of(path, spec) for path, spec in leaves if isinstance(spec, MatrixSpec) and spec.role == "input"}


def _by_purpose(params: PyTree, network: nn.Module, gates: Set[str]) -> dict[str, int]:
    recurrent = params.get("recurrent", params)  # a conditional network has its cell at the top
    cell = recurrent["cell"]
    stored = {role: [cell.get(name, {}) for name in (role, norms)] for role, norms in ROW_NORMS.items()}
    further = sum(_further_gates(part, network, gates) for part in stored["input"])
    return {
        "recurrent": num_params(stored["recurrent"]),
        "bias": num_params(cell.get("bias")),
        "operator": num_params(cell.get("operator")),
        "input": num_params(stored["input"]) - further,
        "further_input": further,
        "initial_state": num_params(recurrent.get("initial_state")),
        "embedding": num_params(params.get("embedding")),
        "readout": num_params((params.get("readout"), params.get("readout_bias"))),
    }


def _further_gates(part: dict[str, object], network: nn.Module, gates: Set[str]) -> int:
    """Sum the sizes of all gates but the largest of each layer. Exclude projections shared between gates."""
    sizes = {name: num_params(factors) for name, factors in part.items() if name in gates}
    layers: Any = network.by_layer({"recurrent": {"cell": sizes}}) if isinstance(network, Layered) else {}
    return sum(sum(layer) - max(layer, default=0) for layer in (layers or {0: [*sizes.values()]}).values())
