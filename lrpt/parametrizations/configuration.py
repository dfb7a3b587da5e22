"""Configuration of the storage of matrices."""

from dataclasses import dataclass


@dataclass(frozen=True)
class MatrixConfig:
    """Storage of the matrices of one role."""

    kind: str = "dense"
    """a name in `PARAMETRIZATIONS`"""
    rank: int = 24
    """d: rows of R and columns of L, displacement rank, number of reflections, rank of a tensor train"""
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
