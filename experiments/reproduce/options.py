"""Options of `python -m experiments.reproduce`."""

from dataclasses import dataclass, field
from pathlib import Path

from experiments.report.claims.scales import SEEDS, Scale
from lrpt.cli.limits import check_runs
from lrpt.engines.engine import EngineOptions
from lrpt.errors import UsageError, check_at_least


@dataclass(frozen=True)
class Data:
    """Places of the data."""

    dir: Path | None = None
    """directory of the data sets, as --data.dir of the experiments"""
    file: Path | None = None
    """the text that commands call BOOK.txt"""


@dataclass(frozen=True)
class Options(EngineOptions):
    """Options of the command line."""

    list: bool = False
    """print the plan, and train nothing"""
    measure: bool = False
    """measure the cost of each configuration by a few updates (without: earlier measurements, or an estimate)"""
    paper: tuple[str, ...] = ()
    """papers by the names of their pages (empty: all)"""
    claims: tuple[str, ...] = ()
    """claims by their names or parts of them (empty: all)"""
    scale: Scale = "published"
    """published: runs of published size; smaller: the runs that are judged in their place; all: both"""
    seeds: int = len(SEEDS)
    """number of seeds of each model, from 0 on"""
    hours: float | None = None
    """train only runs that would be finished in this time (None: all)"""
    data: Data = field(default_factory=Data)
    workdir: Path = Path("runs/reproduce")
    """where run directories go; on a disk that all nodes share"""
    unfinished: Path | None = None
    """archives of unfinished runs: unpacked at the start if workdir is not as far, packed at the end (None: neither)"""
    collect: Path | None = None
    """copy the small files of ended runs to this directory, as experiments.report --collect does (None: do not)"""
    huge: bool = False
    """go on even if the estimate exceeds the limit"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, self, "seeds")
        check_runs(self.seeds, self.huge)
        if self.hours is not None and not self.hours > 0:
            raise UsageError(f"hours is {self.hours:g}: expected a number above 0, or leave it out to train everything")
