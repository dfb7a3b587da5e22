"""Flags of the comparison."""

from dataclasses import dataclass, field
from pathlib import Path

from experiments.fair_crossing.problems import SCORES
from lrpt.analysis.budgets import known_form
from lrpt.cells import CELLS
from lrpt.cli.data_options import TextOptions
from lrpt.cli.flags import check_seeds
from lrpt.errors import UsageError, check_at_least, check_choice, check_distinct
from lrpt.tasks import NextSymbol


@dataclass(frozen=True)
class Options:
    """Flags of the command."""

    data: TextOptions = field(default_factory=lambda: NextSymbol(reading="stream", steps=50))
    tasks: tuple[str, ...] = tuple(SCORES)
    """tasks: copy (of variable length), digits (permuted) and characters (of the text that the data options name)"""
    cells: tuple[str, ...] = ("gru", "lstm", "rhn", "lru", "vcgru", "elman")
    """names of cells, as in --model.cell of the experiments"""
    matrices: tuple[str, ...] = ("dense", "low_rank", "low_rank_plus_diagonal", "block_diagonal", "monarch", "kronecker", "toeplitz_like")
    """parametrizations of the recurrent matrices"""
    equal: str = "parameters"
    """what all networks of a task have in common: parameters (their number) or time (of an update)"""
    budget: int = 20_000
    """number of parameters of each network; for time, of the first cell with dense matrices, whose time the others match"""
    share: float = 0.25
    """parameters of a structured matrix, as a share of those of a dense matrix of its size"""
    depth: int = 2
    """transitions within a step, for cells that can have several"""
    lag: int = 30
    """longest lag of the copy task"""
    rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)
    """learning rates of Adam to try: the three middle ones, and further ones while the best of those tried is the lowest or the highest"""
    updates: int = 3_000
    """updates of each network"""
    evaluations: int = 12
    """number of evaluations of each network; the best one counts"""
    seeds: int = 3
    """number of networks of each pair of cell and matrices; tests of significance need two or more"""
    seed: int = 0
    """first seed, which chooses the learning rate"""
    devices: int | None = None
    """devices to use, as in training"""
    workdir: Path = Path("runs/fair_crossing")
    """directory of the runs, the summary and the plots"""

    def __post_init__(self) -> None:
        for name, known in (("tasks", tuple(SCORES)), ("cells", CELLS)):
            check_distinct(name, getattr(self, name))
            for one in getattr(self, name):
                check_choice(name, one, known)
        check_distinct("matrices", self.matrices)
        for kind in self.matrices:
            known_form(kind, "matrices")
        for cell in self.cells:
            if not CELLS[cell].has_recurrent_matrices:
                raise UsageError(f"cells is '{cell}': it has no recurrent matrices, whose parametrizations are compared")
        check_choice("equal", self.equal, ("parameters", "time"))
        check_at_least(1, self, "budget", "depth", "lag", "updates", "evaluations", "seeds")
        if not 0 < self.share <= 1:
            raise UsageError(f"share is {self.share}: expected a number above 0, at most 1")
        if not self.rates or min(self.rates) <= 0:
            raise UsageError(f"rates is {' '.join(map(str, self.rates)) or 'empty'}: give learning rates above 0")
        check_seeds(self.seed, self.seeds)
