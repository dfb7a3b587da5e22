"""Input matrices of symbols: symbols become one-hot vectors for matrices that multiply vectors only."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from jaxtyping import Array, Float

from lrpt.matrices.operator import Call, Composite
from lrpt.pytrees import register_fields
from lrpt.symbols import as_vectors, dtype_of, type_of_input


@register_fields
@dataclass(frozen=True, eq=False)
class SymbolInputs(Composite):
    """A matrix that multiplies vectors only; symbols reach it as one-hot vectors.

    `Parameters` wraps the input matrices of a cell in this unless they select rows.
    """

    selects_rows: ClassVar[bool] = True
    matrix: Any
    n_in: int = field(metadata={"static": True})

    def __getattr__(self, name: str) -> Any:
        """Return what the matrix knows about itself: `shape`, `work`, `dense_products`, `degrees_of_freedom`."""
        if name.startswith("__") or name == "matrix":
            raise AttributeError(name)
        return getattr(self.matrix, name)

    def apply_by(self, call: Call, v: type_of_input) -> Float[Array, "*b o"]:
        return call(self.matrix, as_vectors(v, self.n_in, dtype_of(self.matrix)))

    def apply_between(self, between: Callable[[Array], Array], v: type_of_input) -> Float[Array, "*b o"]:
        v = as_vectors(v, self.n_in, dtype_of(self.matrix))
        return self.matrix.apply_between(between, v) if isinstance(self.matrix, Composite) else self.matrix.apply(v)

    def to_dense(self) -> Float[Array, "i o"]:
        return self.matrix.to_dense()
