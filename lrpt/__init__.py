"""Passthrough networks in JAX: low-rank and low-rank-plus-diagonal recurrent networks, and other gated networks.

    matrices <- cells <- recurrence <- networks <- training <- experiments

These are the public names to build on; training lives in `lrpt.training`, tasks in `lrpt.tasks`, optimizers in `lrpt.optim`.
"""

from lrpt.cells import CELLS, Cell, CellSpec, Gate, gate_spec
from lrpt.errors import UsageError
from lrpt.matrices import Bias, Dense, Diagonal, LowRank, Sum, low_rank_plus_diagonal
from lrpt.networks.counting import Counts, count
from lrpt.networks.protocol import Start
from lrpt.networks.sequence_model import ModelConfig, SequenceModel
from lrpt.parametrizations import PARAMETRIZATIONS, MatrixConfig, Parametrization, init_parameters
from lrpt.recurrence import LOOPS, recur
from lrpt.specs import BiasSpec, MatrixSpec, OperatorSpec, SettingSpec
from lrpt.trained.loading import Loaded, load

__all__ = [
    "CELLS",
    "LOOPS",
    "PARAMETRIZATIONS",
    "Bias",
    "BiasSpec",
    "Cell",
    "CellSpec",
    "Counts",
    "Dense",
    "Diagonal",
    "Gate",
    "Loaded",
    "LowRank",
    "MatrixConfig",
    "MatrixSpec",
    "ModelConfig",
    "OperatorSpec",
    "Parametrization",
    "SequenceModel",
    "SettingSpec",
    "Start",
    "Sum",
    "UsageError",
    "count",
    "gate_spec",
    "init_parameters",
    "load",
    "low_rank_plus_diagonal",
    "recur",
]
