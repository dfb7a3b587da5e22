"""Accelerator kernels for whole sequences: fast twins of the plain path, with the same parameters and the same numbers."""

from lrpt.recurrence.kernels.gru import sequence

__all__ = ["sequence"]
