"""Accelerator kernels for whole sequences: twins of the plain path, with the same parameters.

**Not yet run on hardware**, where their products are to round to three digits. In interpret mode they agree with the plain path to single
precision.
"""

from lrpt.recurrence.kernels.gru import sequence

__all__ = ["sequence"]
