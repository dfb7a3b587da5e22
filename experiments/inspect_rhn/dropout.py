"""Subcommand on dropout in evaluation: the loss of the mean of many networks."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrpt.cli.finished.run_commands import OnRun
from lrpt.cli.flags import check_seeds
from lrpt.errors import UsageError, check_choice
from lrpt.runs.console import Console
from lrpt.runs.files import write_json
from lrpt.trained.loading import Loaded
from lrpt.trained.monte_carlo import monte_carlo


@dataclass(frozen=True)
class Averaged(OnRun):
    """Average the probabilities of networks with different dropout masks; a mask holds for a whole pass."""

    counts = ("passes", "rows")

    passes: int = 20
    """networks that are averaged"""
    rows: int = 1
    """streams into which the text is cut"""
    split: str = "test"
    """train, valid or test"""
    worst: float = math.inf
    """leave out passes of a higher perplexity, and draw others (500 in the original code)"""
    seed: int = 0
    """seed of the masks"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_seeds(self.seed)


def show_monte_carlo(options: Averaged, trained: Loaded, console: Console) -> None:
    """Print the loss of the averaged probabilities, of single passes, and of the network without dropout."""
    check_choice("split", options.split, tuple(trained.task.splits))
    how: dict[str, Any] = {"passes": options.passes, "rows": options.rows, "seed": options.seed, "worst": _nats(options.worst)}
    found = monte_carlo(trained.model, trained.task, trained.variables, options.split, **how)
    rows = [["mean of probabilities", found.loss], ["single passes, mean", float(np.mean(found.passes))]]
    console.table(
        [f"{options.split}, {options.passes} passes", "nats", "perplexity"], [[name, f"{x:.4f}", f"{math.exp(x):.3f}"] for name, x in rows]
    )
    if found.left_out:
        console.say(f"{found.left_out} passes were left out")
    without = trained.evaluate().get(options.split)
    numbers = {
        "split": options.split,
        "mean_of_probabilities": found.loss,
        "passes": found.passes,
        "without_dropout": (without or {}).get("loss"),
    }
    write_json(options.numbers / "monte_carlo.json", numbers)
    if without:
        console.say(f"without dropout: {without['loss']:.4f} nats, perplexity {math.exp(without['loss']):.3f}")


def _nats(perplexity: float) -> float:
    if not perplexity > 1:
        raise UsageError(f"worst is {perplexity}: expected a perplexity above 1")
    return math.log(perplexity)
