"""Structured matrices as pytrees: how a linear map is stored, and nothing about who uses it.

Every map acts on row vectors, `apply(v) = v @ W` with `W = to_dense()` of shape (n_in, n_out); the papers write the transpose, `W v`.
Both low-rank factors are stored as (rank, n), so that reverse mode computes their gradients as small-by-wide products.

Two matrices are equal (`==`) if they are the same object, and their hash is that of the object: the comparison of two arrays is an array,
and has no value under `jit`. To compare the arrays, use `jax.tree.map(jnp.array_equal, a, b)`.

A cell may call `apply` and nothing else. The fast loop sees only those calls: if a cell read a factor, its gradient would be lost there.

A new kind of matrix needs `apply` and `to_dense`. These are optional:

- `shape` and `degrees_of_freedom`, as in `Matrix`;
- `gradient`, if the weight gradient of many rows has a faster form than reverse mode (`WithGradient`);
- `work(share=1)`, the `Work` for one row if only the leading `share` of rows and columns is used, and `dense_products`, the number of
  multiplications inside the matrix products of `to_dense`: `lrpt.recurrence.materialize` decides by them;
- `slowness`, the time of a multiplication in `apply` relative to one in a product with low-rank factors (on a CPU, n = 256, 20 rows);
- `apply_by` instead of `apply`, if it is made of other operators (`Composite`), as a `Sum` is;
- `diagonal_freedom`, the dimension of the diagonal matrices that it can add to itself, if that is not 0: `Sum` counts them once;
- `selects_rows`, if `apply` takes symbols. Otherwise `SymbolInputs` gives it one-hot vectors.

Axis letters: b batch (any number of leading axes), i inputs, o outputs, n square size, d or r rank, k blocks or reflections.
"""

from lrpt.matrices.axes import NORMS_OF_LAYER, ROW_AXIS, ROW_NORMS, WIDE_AXES, field_of, leading_block
from lrpt.matrices.bias import Bias
from lrpt.matrices.blocks import BlockDiagonal, Monarch
from lrpt.matrices.circulant import Circulant, ToeplitzLike
from lrpt.matrices.dense import Dense, Projection, apart, beside, stored_both_ways
from lrpt.matrices.diagonal import Diagonal, Rotation, as_complex
from lrpt.matrices.kronecker import Kronecker
from lrpt.matrices.low_rank import LowRank
from lrpt.matrices.operator import Call, Composite, Matrix, Operator, WithGradient, Work, is_operator, num_params
from lrpt.matrices.reflections import Householder, Reflection
from lrpt.matrices.sparse import Sparse
from lrpt.matrices.sums import Sum, low_rank_plus_diagonal
from lrpt.matrices.symbol_inputs import SymbolInputs

__all__ = [
    "NORMS_OF_LAYER",
    "ROW_AXIS",
    "ROW_NORMS",
    "WIDE_AXES",
    "Bias",
    "BlockDiagonal",
    "Call",
    "Circulant",
    "Composite",
    "Dense",
    "Diagonal",
    "Householder",
    "Kronecker",
    "LowRank",
    "Matrix",
    "Monarch",
    "Operator",
    "Projection",
    "Reflection",
    "Rotation",
    "Sparse",
    "Sum",
    "SymbolInputs",
    "ToeplitzLike",
    "WithGradient",
    "Work",
    "apart",
    "as_complex",
    "beside",
    "field_of",
    "is_operator",
    "leading_block",
    "low_rank_plus_diagonal",
    "num_params",
    "stored_both_ways",
]
