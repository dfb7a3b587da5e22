"""Recurrent cells: pure functions, one file per family, and the table that names them."""

from lrpt.cells.cell import Cell, CellSpec, Gate, StateGate, gate_spec, state_gate_spec
from lrpt.cells.deep_transition import DT_RNN, DTS_RNN, ShortcutLayer, TransitionInfo, TransitionLayer, dt_rnn, dts_rnn
from lrpt.cells.elman import ELMAN, ElmanParams, elman
from lrpt.cells.gru import (
    GRU,
    GRU_CUDNN,
    GRU_RESET_AFTER,
    CandidateWithTwoBiases,
    GRUCuDNNParams,
    GRUInfo,
    GRUParams,
    gru,
    gru_cudnn,
    gru_reset_after,
)
from lrpt.cells.lstm import LSTM, LSTMCarry, LSTMInfo, LSTMParams, lstm
from lrpt.cells.recurrent_highway import RHN, RHN_UNCOUPLED, RHNInfo, RHNLayer, UncoupledRHNLayer, rhn, rhn_uncoupled
from lrpt.cells.unitary import (
    UNITARY,
    UNITARY_WITHOUT_FOURIER,
    UnitaryInfo,
    UnitaryParams,
    UnitaryWithoutFourierParams,
    scale_penalty,
    unitary,
    unitary_without_fourier,
)

CELLS: dict[str, Cell] = {
    "gru": GRU,
    "gru_reset_after": GRU_RESET_AFTER,
    "gru_cudnn": GRU_CUDNN,
    "lstm": LSTM,
    "rhn": RHN,
    "rhn_uncoupled": RHN_UNCOUPLED,
    "dt_rnn": DT_RNN,
    "dts_rnn": DTS_RNN,
    "elman": ELMAN,
    "unitary": UNITARY,
    "unitary_without_fourier": UNITARY_WITHOUT_FOURIER,
}

__all__ = [
    "CELLS",
    "CandidateWithTwoBiases",
    "Cell",
    "CellSpec",
    "ElmanParams",
    "GRUCuDNNParams",
    "GRUInfo",
    "GRUParams",
    "Gate",
    "LSTMCarry",
    "LSTMInfo",
    "LSTMParams",
    "RHNInfo",
    "RHNLayer",
    "ShortcutLayer",
    "StateGate",
    "TransitionInfo",
    "TransitionLayer",
    "UncoupledRHNLayer",
    "UnitaryInfo",
    "UnitaryParams",
    "UnitaryWithoutFourierParams",
    "dt_rnn",
    "dts_rnn",
    "elman",
    "gate_spec",
    "gru",
    "gru_cudnn",
    "gru_reset_after",
    "lstm",
    "rhn",
    "rhn_uncoupled",
    "scale_penalty",
    "state_gate_spec",
    "unitary",
    "unitary_without_fourier",
]
