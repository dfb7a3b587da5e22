"""Recurrent cells: pure step functions, one file per family, and the table of their names."""

from lrpt.cells.cell import Cell, CellSpec, Gate, Schedule, StateGate, Stream, gate_spec, state_gate_spec
from lrpt.cells.conditional import ConditionalCarry, ConditionalInput, ConditionalParams, ConditionedGate, conditional, conditional_cell
from lrpt.cells.deep_transition import DT_RNN, DTS_RNN, ShortcutLayer, TransitionInfo, TransitionLayer, dt_rnn, dts_rnn
from lrpt.cells.elman import ELMAN, ElmanParams, elman
from lrpt.cells.grid_lstm import (
    GRID_LSTM,
    GRID_LSTM_DEPTH_FIRST,
    GRID_LSTM_TIME_FIRST,
    DepthStream,
    GridLSTMInfo,
    GridLSTMParams,
    grid_lstm,
    grid_lstm_depth_first,
    grid_lstm_time_first,
)
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
from lrpt.cells.highway import HighwayInfo, HighwayParams
from lrpt.cells.lattice import (
    LRU,
    LRU_PS,
    LRU_PS_CODE,
    LRU_RG,
    LRU_RG_CODE,
    LRUInfo,
    LRUParams,
    PSLRUInfo,
    PSLRUParams,
    RGLRUInfo,
    RGLRUParams,
    lru,
    lru_ps,
    lru_ps_code,
    lru_rg,
    lru_rg_code,
)
from lrpt.cells.lstm import LSTM, LSTMCarry, LSTMInfo, LSTMParams, lstm
from lrpt.cells.recurrent_highway import RHN, RHN_UNCOUPLED, RHNInfo, RHNLayer, UncoupledRHNLayer, rhn, rhn_uncoupled
from lrpt.cells.stacked import StackParams, stacked
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
from lrpt.cells.variable_computation import (
    VCGRU,
    VCLSTM,
    VCRNN,
    VariableInfo,
    VariableParams,
    block_step,
    blocks,
    hard_step,
    variable_cell,
    vcgru,
    vclstm,
    vcrnn,
)
from lrpt.errors import UsageError, check_choice
from lrpt.tables import Table

CELLS: Table[Cell] = Table(
    {
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
        "lru_ps": LRU_PS,
        "lru_ps_code": LRU_PS_CODE,
        "lru_rg": LRU_RG,
        "lru_rg_code": LRU_RG_CODE,
        "lru": LRU,
        "grid_lstm": GRID_LSTM,
        "grid_lstm_depth_first": GRID_LSTM_DEPTH_FIRST,
        "grid_lstm_time_first": GRID_LSTM_TIME_FIRST,
        "vcrnn": VCRNN,
        "vcgru": VCGRU,
        "vclstm": VCLSTM,
    }
)

_TITLES = {
    "elman": "RNN",
    "gru_reset_after": "GRU (reset after)",
    "gru_cudnn": "GRU (cuDNN)",
    "rhn_uncoupled": "RHN (uncoupled)",
    "dt_rnn": "DT-RNN",
    "dts_rnn": "DT(S)-RNN",
    "unitary": "uRNN",
    "unitary_without_fourier": "uRNN (without Fourier transform)",
    "lru_ps": "PS-LRU",
    "lru_ps_code": "PS-LRU (code)",
    "lru_rg": "RG-LRU",
    "lru_rg_code": "RG-LRU (code)",
    "grid_lstm": "Grid-LSTM",
    "grid_lstm_depth_first": "Grid-LSTM (depth first)",
    "grid_lstm_time_first": "Grid-LSTM (time first)",
}


def cell_named(name: str, flag: str = "cell") -> Cell:
    """Return an entry of `CELLS`.

    Args:
      name: its name in `CELLS`.
      flag: the setting that holds the name, for error messages.

    Raises:
      UsageError: there is no such entry, or it is no `Cell`.
    """
    check_choice(flag, name, CELLS)
    entry: object = CELLS[name]
    if not isinstance(entry, Cell):
        raise UsageError(f"CELLS[{name!r}] is a {type(entry).__name__}: wrap it in lrpt.Cell(step, template)")
    return entry


def title_of(name: str) -> str:
    """Return the name of a cell in tables and plots, as in its paper: 'uRNN' for `unitary`, 'GRU' for `gru`.

    Args:
      name: its name in `CELLS`.
    """
    return _TITLES.get(name, name.upper().replace("_", " "))


__all__ = [
    "CELLS",
    "CandidateWithTwoBiases",
    "Cell",
    "CellSpec",
    "ConditionalCarry",
    "ConditionalInput",
    "ConditionalParams",
    "ConditionedGate",
    "DepthStream",
    "ElmanParams",
    "GRUCuDNNParams",
    "GRUInfo",
    "GRUParams",
    "Gate",
    "GridLSTMInfo",
    "GridLSTMParams",
    "HighwayInfo",
    "HighwayParams",
    "LRUInfo",
    "LRUParams",
    "LSTMCarry",
    "LSTMInfo",
    "LSTMParams",
    "PSLRUInfo",
    "PSLRUParams",
    "RGLRUInfo",
    "RGLRUParams",
    "RHNInfo",
    "RHNLayer",
    "Schedule",
    "ShortcutLayer",
    "StackParams",
    "StateGate",
    "Stream",
    "TransitionInfo",
    "TransitionLayer",
    "UncoupledRHNLayer",
    "UnitaryInfo",
    "UnitaryParams",
    "UnitaryWithoutFourierParams",
    "VariableInfo",
    "VariableParams",
    "block_step",
    "blocks",
    "cell_named",
    "conditional",
    "conditional_cell",
    "dt_rnn",
    "dts_rnn",
    "elman",
    "gate_spec",
    "grid_lstm",
    "grid_lstm_depth_first",
    "grid_lstm_time_first",
    "gru",
    "gru_cudnn",
    "gru_reset_after",
    "hard_step",
    "lru",
    "lru_ps",
    "lru_ps_code",
    "lru_rg",
    "lru_rg_code",
    "lstm",
    "rhn",
    "rhn_uncoupled",
    "scale_penalty",
    "stacked",
    "state_gate_spec",
    "title_of",
    "unitary",
    "unitary_without_fourier",
    "variable_cell",
    "vcgru",
    "vclstm",
    "vcrnn",
]
