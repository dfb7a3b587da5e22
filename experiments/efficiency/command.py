"""Accuracy of trained networks against the amount of computation: Figure 4 of Jernite et al. 2017.

    python -m experiments.efficiency RUN_DIRECTORY RUN_DIRECTORY ...
    python -m experiments.efficiency runs/europarl --score bits_per_character --figure efficiency.png

A directory that contains run directories stands for all of them. Supported are runs of `europarl`, `variable_computation`, `bit_lm`,
`music` and `conditional`, because their results contain the size of an Elman network with as many operations.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from experiments.efficiency.points import SIZES, Point, equivalent_size_figure, lines, point_of
from lrpt.cli.command import RUN_UNCHANGED, leaving_with_a_line
from lrpt.cli.flags import parse_dataclass
from lrpt.errors import UsageError, check_choice
from lrpt.files import read_json
from lrpt.runs.console import Console
from lrpt.runs.layout import CONFIG, RESULT, run_directories

PROGRAM = "python -m experiments.efficiency"


@dataclass(frozen=True)
class Options:
    """Command-line options of the comparison."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """finished run directories, or directories that contain them"""
    score: str = "bits_per_character"
    """metric on the test split"""
    convention: str = "paper"
    """equivalent size: paper ("RNN-d" as printed) or counted (multiplications)"""
    figure: Path = Path("efficiency.png")
    """PNG file to write"""

    def __post_init__(self) -> None:
        check_choice("convention", self.convention, SIZES)


def points(options: Options) -> list[Point]:
    """Read the runs in the order of the directories.

    Raises:
      UsageError: a directory contains no finished run, or a run has no such score or no equivalent size.
    """
    return [
        point_of(_read(run / RESULT, "metrics", "model"), _read(run / CONFIG, "model"), options.score, options.convention)
        for path in options.runs
        for run in _finished(path)
    ]


def _finished(path: Path) -> Iterator[Path]:
    found = run_directories(path, RESULT)
    if not found:
        raise UsageError(f"{path} holds no finished run: name directories with a result.json")
    yield from found


def _read(path: Path, *needed: str) -> Any:
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read ({error}): name the directory of a run") from None
    for name in needed:
        if not isinstance(content, dict) or name not in content:
            raise UsageError(f"{path} has no '{name}': name the directory of a run")
    return content


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table, and plot it."""
    console = Console()
    with leaving_with_a_line(console, RUN_UNCHANGED):
        options = parse_dataclass(Options, arguments, PROGRAM, (__doc__ or "").partition("\n")[0], Options((Path("runs"),)))
        found = points(options)
        rows = [[p.label, name, f"{p.size:.0f}", f"{p.score:.4f}"] for name, own in lines(found).items() for p in own]
        console.table(["network", "line", "equivalent size", options.score.replace("_", " ")], rows)
        console.say(f"figure: {equivalent_size_figure(found, options.score, options.figure, convention=options.convention)}")
