"""Layout of a low-rank GRU for the persistent kernels: tiles, parts, and their shared memory."""

from dataclasses import dataclass
from typing import Any

MAX_SIZE, MAX_RANK = 256, 64
EXAMPLES = 8
"""Examples in a block of threads: the narrowest tile of `wgmma`, since latency, not throughput, bounds a small recurrent network."""
ROWS = 64
"""Rows of a tile that `wgmma` multiplies."""
SHARED_BYTES = 227 * 1024 - 4 * 1024
"""Shared memory of a block on compute capability 9.0, minus a reserve for barriers and alignment."""


@dataclass(frozen=True)
class KernelPlan:
    """Layout of one problem.

    Attributes:
      size: n, components of the state, a multiple of 64.
      rank: d, of the recurrent matrices, a multiple of 8.
      parts: blocks over which the components are split.
      interpret: argument of `plgpu.kernel`: False to compile, or parameters of interpret mode, in which a part is a thread of one block.
    """

    size: int
    rank: int
    parts: int
    interpret: Any = False

    @property
    def rows(self) -> int:
        """Return the number of components of the state in a part."""
        return self.size // self.parts

    @property
    def narrow_rows(self) -> int:
        """Return the rows of three stacked (d, n) factors, with zeros up to the end of the tile that begins with the third."""
        return 2 * self.rank + ROWS

    @property
    def pair_rows(self) -> int:
        """Return the rows of the tiles that hold the first two factors."""
        return round_up(2 * self.rank, ROWS)

    @property
    def shared_bytes(self) -> int:
        """Return an upper bound of the memory of either kernel in a block: factors, operands of products, summands of other parts."""
        factors = self.rows * (self.narrow_rows + 3 * self.rank)
        vectors = EXAMPLES * (2 * self.rows + 3 * ROWS * (1 + self.parts))
        return 4 * (factors + vectors)


def plan_for(size: int, rank: int, interpret: Any = False) -> KernelPlan:
    """Return the plan with the fewest parts that fits shared memory. Parts of 64 components fit up to `MAX_SIZE` and `MAX_RANK`."""
    size, rank = round_up(size, ROWS), round_up(rank, 8)
    splits = (parts for parts in range(1, size // ROWS + 1) if size % (parts * ROWS) == 0)
    return next(p for p in (KernelPlan(size, rank, parts, interpret) for parts in splits) if p.shared_bytes <= SHARED_BYTES)


def round_up(value: int, multiple: int) -> int:
    """Return the least multiple that is not below `value`."""
    return -(-value // multiple) * multiple
