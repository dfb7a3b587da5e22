"""Accelerator kernels for whole sequences: twins of the plain path, with the same parameters.

On an NVIDIA H100 they agree with the plain path as closely as that agrees with itself in full precision, when its products round to TF32 as
they do by default. In interpret mode, on a CPU, they agree to single precision.
"""

from lrpt.recurrence.kernels.gru import sequence

__all__ = ["sequence"]
