"""A model card for each kept result with weights, and the page that lists them."""

import math
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from experiments.report.kept.records import Record
from experiments.report.kept.weights import best_evaluation
from experiments.report.pages.paper_page import page_path
from experiments.report.wording.data_terms import Terms, terms_of
from experiments.report.wording.markdown import RESULTS, table
from lrpt.cells import CELLS
from lrpt.cli.experiment import Experiment
from lrpt.cli.finished.trained import experiment_with
from lrpt.networks.counting import count
from lrpt.networks.sequence_model import ModelConfig
from lrpt.networks.variable_computation import VariableConfig
from lrpt.runs import weights
from lrpt.trained.loading import Loaded, load

CARD = "README.md"
MODELS = page_path("models")
LOW_RANK = ("low_rank", "low_rank_plus_diagonal")


class Described(NamedTuple):
    """A kept result with weights: its files, its network, its place from the top of the repository, its experiment and its data."""

    record: Record
    trained: Loaded
    place: PurePosixPath
    experiment: Experiment[Any]
    terms: Terms

    @property
    def parameters(self) -> int:
        """Return the true number of parameters."""
        interface = self.trained.interface
        return count(self.trained.config.model, interface.input_size, interface.output_size).true

    @property
    def size(self) -> int:
        """Return the bytes of the weights."""
        return weights.metadata_of(self.trained.path)["bytes"]

    @property
    def label(self) -> str:
        """Return the name of the network."""
        return self.trained.config.model.label

    @property
    def score(self) -> str:
        """Return the metric that tables of its preset show."""
        return self.experiment.score_of(self.trained.preset)

    @property
    def metrics(self) -> dict[str, Any]:
        """Return metrics by split; the test split only for a finished run."""
        best = {name: value for name, value in (best_evaluation(self.record) or {}).items() if name not in ("update", "seconds", "split")}
        return {"valid": best} | ({} if self.record.result is None else {"test": self.record.result["metrics"]["test"]})


def described(records: Sequence[Record], root: Path) -> list[Described]:
    """Return the kept results that have weights.

    Raises:
      UsageError: the weights of one were changed.
    """
    found = []
    for record in records:
        place = RESULTS / record.experiment / record.name
        if weights.are_kept(root / place):
            trained = load(root / place)
            found.append(Described(record, trained, place, experiment_with(trained), terms_of(trained.config.data)))
    return found


def card(one: Described) -> str:
    """Return the model card of a result."""
    record, trained = one.record, one.trained
    rows = [
        ["task", f"{one.experiment.about} {one.experiment.reproduces}."],
        ["network", f"{one.label}, {one.parameters:,} parameters, {one.size / 1e3:,.0f} kB"],
        ["data", one.terms.about],
        ["training", _training(one)],
        ["command", f"`{record.environment['command']}`{_at(record.environment.get('commit'))}"],
        ["weights", f"after update {trained.update:,}, which has the lowest validation loss"],
        *([f"score, {split} split", _scores(one, metrics)] for split, metrics in one.metrics.items()),
        ["licence", f"Apache-2.0 for code and weights. Data: {one.terms.licence}"],
    ]
    parts = [
        f"# {one.label}, {record.experiment}, seed {record.seed}",
        f"A trained network of [lrpt]({_up(one.place)}README.md). `python -m experiments.report` writes this page. "
        f"[All trained networks]({_up(one.place)}{MODELS})",
        table(["", ""], rows, left=2),
        "From the top of the clone" + (", where DIR has the data:" if one.terms.is_read else ":"),
        "```sh\n" + "\n".join(commands(one)) + "\n```",
        f'```python\ntrained = lrpt.load("{one.place}")\n'
        "predictions = trained.model.apply(trained.variables, inputs)  # batch, steps, features; or batch, steps of symbols\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _at(commit: str | None) -> str:
    """Return at which commit a command made its run, as presets may have changed since."""
    return f", at commit {commit[:7]}" if commit else ""


def _training(one: Described) -> str:
    record, config = one.record, one.trained.config
    rate = "" if config.optim.learning_rate is None else f", learning rate {config.optim.learning_rate:g}"
    return (
        f"{record.updates:,} updates of {config.train.batch_size} examples, "
        f"optimizer recipe {config.optim.recipe}{rate}; {record.state}; {timedelta(seconds=round(record.seconds))} on {record.hardware}"
    )


def _scores(one: Described, metrics: dict[str, Any]) -> str:
    names = dict.fromkeys([one.score, "loss"])
    found = {name: metrics[name] for name in names if metrics.get(name) is not None and math.isfinite(metrics[name])}
    return ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in found.items())


def commands(one: Described) -> Iterator[str]:
    """Yield the command lines that use a network: evaluate, sample, look into it, compress it."""
    config, place = one.trained.config.model, one.place
    data = " --data.dir DIR" if one.terms.is_read else ""
    yield f"python -m experiments.report --verify {one.record.experiment}/{one.record.name}{data}"
    if one.trained.vocabulary is not None and "sample" in one.experiment.subcommands:
        yield f"python -m experiments.{one.record.experiment} sample {place}"
    if isinstance(config, VariableConfig) and config.has_scheduler:
        yield f"python -m experiments.{one.record.experiment} schedule {place}{data}"
    if isinstance(config, ModelConfig):
        yield f"python -m experiments.inspect_rhn discs {place}{data}"
    if isinstance(config, ModelConfig) and CELLS[config.cell].has_recurrent_matrices:
        matrices = config.matrices
        rank = max(1, (matrices.rank if matrices.kind in LOW_RANK else config.size // 4) // 2)
        yield f"python -m experiments.compress {place} --rank {rank}{data}"


def models_page(found: Sequence[Described], runs: int) -> str:
    """Return the page that lists all trained networks, of so many kept runs."""
    columns = ["network", "run", "data", "score", "seed", "test", "parameters", "kB"]
    tasks = dict.fromkeys(one.record.experiment for one in found)
    tables = {task: table(columns, [_row(one) for one in found if one.record.experiment == task], left=4) for task in tasks}
    parts = [
        "# Trained networks",
        f"Of {runs} [kept runs](runs.md), these {len(found)} have weights (30 MB in all at most). Metrics of the others "
        "cannot be computed again. "
        "Each has a card: training, score, licence, and the commands that use it. "
        "`lrpt.load(DIRECTORY)` reads them. [Overview](../../REPRODUCTION.md)",
        'The column "test" has the score of the best evaluation. For adding and copying, validation and test sequences are the same, '
        'so the best evaluation is selected on the test sequences. The column "kB" has the size of the compressed weights.',
        *(part for task, own in tables.items() for part in (f"## {task}", own)),
    ]
    return "\n\n".join(parts) + "\n"


def _value(metric: float | None) -> str:
    return "not finite" if metric is None else f"{metric:.4g}"


def _row(one: Described) -> list[str]:
    score, metrics = one.score, one.metrics.get("test", {})
    value = _value(metrics[score]) if score in metrics else "not evaluated"
    link = f"[{one.label}]({_up(MODELS.parent)}{one.place}/{CARD})"
    counts = [str(one.record.seed), value, f"{one.parameters:,}", f"{one.size / 1e3:,.0f}"]
    return [link, one.place.name, one.terms.about, score.replace("_", " "), *counts]


def _up(place: PurePosixPath) -> str:
    """Return the relative path from a directory to the top of the repository."""
    return "../" * len(place.parts)


def card_pages(records: Sequence[Record], root: Path) -> dict[PurePosixPath, str]:
    """Return the text of every card, and of the page that lists them, by path."""
    found = described(records, root)
    return {MODELS: models_page(found, len(records)), **{one.place / CARD: card(one) for one in found}}
