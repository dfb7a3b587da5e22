"""The `score` subcommand of language models: metrics of a trained network in one uninterrupted stream.

python -m experiments.word_lm score RUN_DIRECTORY --split test
"""

from dataclasses import dataclass

from lrpt.cli.finished.run_commands import Reading, on_run
from lrpt.runs.console import Console
from lrpt.runs.run_directory import RunDirectory
from lrpt.trained.loading import Loaded
from lrpt.trained.one_stream import WINDOW, score


@dataclass(frozen=True)
class Options(Reading):
    """Options of `score`."""

    split: str = "test"
    """train, valid or test"""
    window: int = WINDOW
    """symbols that are read at once; the metrics do not depend on it, but for rounding"""


def show_score(options: Options, trained: Loaded, console: Console) -> None:
    """Print the metrics in one stream, beside the recorded ones in the streams of evaluation."""
    found = score(trained, options.split, options.window)
    result = RunDirectory(options.run).result()
    streams = f"{min(trained.config.train.evaluation_rows, trained.task.splits[options.split].size)} streams, as recorded"
    recorded = {} if result is None or options.state != "best" else result["metrics"].get(options.split, {})
    columns = [options.split, *found]
    rows = [["one stream", *(f"{value:.6g}" for value in found.values())]]
    if recorded:
        rows.append([streams, *(f"{recorded[name]:.6g}" if name in recorded else "" for name in found)])
    console.table(columns, rows, f"{trained.label}, update {trained.update}")


SCORE = {"score": on_run(Options, show_score, "Print the loss of a trained language model on a split, read as one uninterrupted stream.")}
