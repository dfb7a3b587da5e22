"""A matrix of every kind, for vectors of width 8."""

from functools import partial

import numpy as np

from lrpt.matrices import (
    BlockDiagonal,
    Circulant,
    Dense,
    Diagonal,
    Householder,
    Kronecker,
    LowRank,
    Monarch,
    Projection,
    Reflection,
    Rotation,
    Sparse,
    Sum,
    ToeplitzLike,
)

ones = partial(np.ones, dtype=np.float32)
OF_WIDTH_8 = [
    Dense(ones((8, 4))),
    Projection(ones((4, 8))),
    Diagonal(ones(8)),
    Rotation(ones(8)),
    Reflection(ones(16)),
    LowRank(ones((2, 4)), ones((2, 8))),
    BlockDiagonal(ones((2, 4, 4))),
    Monarch(ones((2, 4, 4)), ones((4, 2, 2))),
    Kronecker(ones((1, 2, 2)), ones((1, 4, 4))),
    Circulant(ones(8)),
    ToeplitzLike(ones((2, 8)), ones((2, 8))),
    Householder(ones((2, 8))),
    Sparse(ones((4, 2)), 8),
    Sum((Diagonal(ones(8)), Circulant(ones(8)))),
]
