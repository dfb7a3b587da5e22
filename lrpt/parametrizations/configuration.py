"""Configuration of the storage of matrices."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lrpt.errors import check_booleans, check_choice, check_integers, check_numbers, check_positive
from lrpt.parametrizations.initialization import INITIALIZATIONS
from lrpt.tables import Table

PARAMETRIZATIONS: Table[Callable[..., Any]] = Table()
"""Parametrizations by name: subclasses of `Parametrization`, or other functions of specifications, configuration and `name`.
`lrpt.parametrizations.modules` fills it."""


@dataclass(frozen=True)
class MatrixConfig:
    """Storage of the matrices of one role.

    Raises:
      UsageError: there is no such parametrization or initialization, a size is no integer, a share is no number, or a scale is no finite
        number above 0. Sizes and shares that do not fit a matrix are refused when it is made.
    """

    kind: str = "dense"
    """a name in `PARAMETRIZATIONS`"""
    rank: int = 24
    """d: columns of R and rows of L, displacement rank, number of reflections, rank of a tensor train"""
    tied: bool = False
    """one projection R for all gates"""
    weight_norm: bool = False
    """rows as scale * direction / |direction|"""
    initialization: str = "glorot"
    """a name in `INITIALIZATIONS`"""
    initial_scale: float = 0.04
    """range or standard deviation, for initializations that have one"""
    blocks: int = 4
    """k: blocks of block-diagonal and Monarch matrices, rows of the outer factor of Kronecker products"""
    density: float = 0.125
    """share of the entries that sparse matrices have"""

    def __post_init__(self) -> None:
        check_choice("the parametrization of a MatrixConfig", self.kind, PARAMETRIZATIONS)
        check_choice("the initialization of a MatrixConfig", self.initialization, INITIALIZATIONS)
        check_integers(self, "rank", "blocks", optional=False)
        check_booleans(self, "tied", "weight_norm")
        check_numbers(self, "density")
        check_positive(self, "initial_scale")
