"""Recurrent cells: pure functions, one file per family, and the table that names them."""

from lrpt.cells.cell import Cell, CellSpec, Gate, gate_spec
from lrpt.cells.gru import GRU, GRU_RESET_AFTER, GRUInfo, GRUParams, gru, gru_reset_after

CELLS: dict[str, Cell] = {"gru": GRU, "gru_reset_after": GRU_RESET_AFTER}

__all__ = ["CELLS", "Cell", "CellSpec", "GRUInfo", "GRUParams", "Gate", "gate_spec", "gru", "gru_reset_after"]
