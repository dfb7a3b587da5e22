"""Options of `python -m experiments.report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

PROGRAM = "python -m experiments.report"


@dataclass(frozen=True)
class Options:
    """Options of the command."""

    collect: Path | None = None
    """copy the small files of every run below this directory, and the summaries of studies, to experiments/results; write nothing else"""
    check: bool = False
    """write nothing; check that the pages are those that would be written"""
    verify: tuple[str, ...] | None = None
    """evaluate weights again and compare with what is recorded: experiments, experiment/run, or run directories (none: all kept ones)"""
    weights: bool = True
    """for --collect: keep the weights of the best state, too, within 5 MB a run and 30 MB in all"""
    data_dir: Annotated[Path | None, tyro.conf.arg(name="data.dir")] = None
    """for --verify and --collect: the directory that holds mnist/, ptb/ and the like, or the data themselves"""
