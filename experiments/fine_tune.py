"""Fine-tuning of a trained network on a new text: each recurrent matrix is frozen and gets a trainable term of low rank.

    python -m experiments.fine_tune RUN_DIRECTORY --data.file TEXT --rank 8             a run, or a kept result, of characters
    python -m experiments.fine_tune RUN_DIRECTORY --data.file TEXT --rank 4 --diagonal
    python -m experiments.fine_tune --from FILE.npz --data.file TEXT                    a GRU or LSTM of Flax or PyTorch

Frozen matrices have no gradient and no optimizer state. Symbols keep their embedding and readout weights, whatever their numbers in the new
text; those of new symbols are drawn. A cell from a file gets a new embedding and a new readout. In the end the terms are added to the
frozen matrices, which changes predictions by rounding only, and `merged.npz` holds the network with dense matrices.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from lrpt.cli.command import leaving_with_a_line
from lrpt.cli.data_options import TextOptions
from lrpt.cli.finished.trained import not_one_source, read_run
from lrpt.cli.flags import check_seeds, parse_dataclass
from lrpt.compression.adapters import adapted, adapter_config, full_config, in_full, merged, with_symbols
from lrpt.datasets.vocabulary import ByteCharacters, ByteVocabulary, WordVocabulary
from lrpt.errors import UsageError, check_at_least
from lrpt.interop.files import load_weights
from lrpt.interop.pytorch import read
from lrpt.matrices import num_params
from lrpt.networks.recurrent import RecurrentConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.networks.variable_computation import VariableConfig
from lrpt.optim import OptimConfig
from lrpt.parametrizations import FROZEN
from lrpt.runs.console import Console
from lrpt.runs.named_arrays import digest, load_arrays, save, save_arrays, to_named
from lrpt.settings import changed_settings
from lrpt.tasks import NextSymbol
from lrpt.tasks.bits import BITS
from lrpt.tasks.task import AnyVocabulary, Task
from lrpt.trained.loading import load
from lrpt.training.config import RunConfig, TrainConfig
from lrpt.training.loop import Job, fit
from lrpt.training.run import Run

PROGRAM = "python -m experiments.fine_tune"
START, MERGED = "start.npz", "merged.npz"
NAMES = {"experiment": "fine_tune", "preset": "custom"}


@dataclass(frozen=True)
class Options:
    """Flags of the command."""

    run: tyro.conf.Positional[Path | None] = None
    """run directory, finished or not, or directory of a kept result"""
    source: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """instead of a run, an .npz file with the arrays of a GRU or LSTM of Flax or PyTorch"""
    layer: str = "l0"
    """of a PyTorch network: which layer, l0_reverse for the other direction"""
    data: TextOptions = field(default_factory=lambda: NextSymbol(reading="stream", steps=50))
    rank: int = 8
    """rank of the trainable term of each recurrent matrix"""
    diagonal: bool = False
    """add a trainable diagonal, too"""
    updates: int = 500
    """updates on the new text"""
    evaluate_every: int = 100
    """updates between evaluations; the best one is kept"""
    batch_size: int = 32
    """examples, or streams, in each update"""
    learning_rate: float = 1e-3
    """learning rate of Adam"""
    seed: int = 0
    """decides what is drawn, and the order of batches"""
    devices: int | None = None
    """devices to use, as in training"""
    workdir: Path = Path("runs/fine_tune")
    """run directory, where the same command resumes"""
    json: bool = False
    """print a JSON object instead of a table"""

    def __post_init__(self) -> None:
        check_at_least(1, self, "rank", "updates", "evaluate_every", "batch_size")
        check_seeds(self.seed)


def prepare(options: Options, task: Task, console: Console) -> tuple[ModelConfig, dict[str, Any]]:
    """Return the configuration of the network with adapters, and its variables at the start.

    Raises:
      UsageError: no network is named, it cannot be read or predicts no symbols, or the rank does not fit.
    """
    if options.run is not None and options.source is None:
        return _of_run(options, options.run, task, console)
    if options.run is not None or options.source is None:
        raise not_one_source(options.run, options.source)
    params, network = read(load_weights(options.source), options.layer)
    config = adapter_config(_with_vectors(network.config, network.input_size), options.rank, options.diagonal)
    return config, adapted(in_full(params, network), _initial(config, task, options.seed))


def _with_vectors(config: RecurrentConfig, width: int) -> ModelConfig:
    """Return the configuration of a network with this recurrent part, which reads a vector of this width for each symbol."""
    own = {field.name: getattr(config, field.name) for field in fields(RecurrentConfig)}
    return ModelConfig(**own, embedding=width)


def _of_run(options: Options, path: Path, task: Task, console: Console) -> tuple[ModelConfig, dict[str, Any]]:
    loaded = read_run(path, console)
    network, old, new = loaded.recurrent, loaded.vocabulary, task.vocabulary
    if old is None or new is None or loaded.interface.reads != "all":
        raise UsageError(f"{path} holds a network that predicts no symbols of a text: name a run of a language model of characters")
    if _unit(old) != _unit(new):
        raise UsageError(f"{path} holds a network that reads {_unit(old)}, and the text is read by {_unit(new)}: {_advice(old)}")
    trained = in_full(loaded.variables["params"], network, loaded.variables.get(FROZEN))
    config = _at_sharpness(adapter_config(loaded.recurrent_config, options.rank, options.diagonal), loaded.variables)
    initial = _initial(config, task, options.seed)
    start = adapted(with_symbols(trained, initial["params"], network, old.symbols, new.symbols), initial)
    return config, {**loaded.variables, **start}


def _unit(vocabulary: AnyVocabulary) -> str:
    """Return what the symbols of a vocabulary are."""
    if isinstance(vocabulary, WordVocabulary):
        return "words"
    if vocabulary.symbols == BITS:
        return "bits"
    return "bytes" if isinstance(vocabulary, ByteCharacters | ByteVocabulary) else "characters"


def _advice(old: AnyVocabulary) -> str:
    """Return what to do if a network reads other symbols than the new text has."""
    of_text = {"bytes": "bytes", "characters": "utf-8"}
    return f"give --data.encoding {of_text[_unit(old)]}" if _unit(old) in of_text else "name a run of a language model of characters"


def _at_sharpness(config: ModelConfig, variables: Mapping[str, Any]) -> ModelConfig:
    """Return a configuration in which the mask of variable computation keeps the sharpness that it was trained to."""
    if not isinstance(config, VariableConfig) or not config.has_scheduler:
        return config
    sharpness = float(jax.tree.leaves(variables["settings"])[0])
    return replace(config, mask=replace(config.mask, sharpness=sharpness, growth=0.0, end=max(sharpness, config.mask.end)))


def _initial(config: ModelConfig, task: Task, seed: int) -> dict[str, Any]:
    """Draw the variables of a network for the task."""
    model = config.build(task.input_size, task.output_size, task.reads)
    drawn: Any = jax.jit(model.init)(jax.random.key(seed), jnp.zeros((1, 1), jnp.int32))
    return jax.tree.map(np.asarray, {name: drawn[name] for name in ("params", FROZEN)})


def fine_tune(options: Options, console: Console) -> dict[str, Any]:
    """Train the adapters, merge them, and return the report."""
    task = options.data.build(options.seed)
    model, start = prepare(options, task, console)
    config = RunConfig(model, OptimConfig("adam", options.learning_rate), _train(options, task), options.data)
    write_start(Job(config, options.seed, options.workdir), to_named({**start["params"], FROZEN: start[FROZEN]}))
    fit(config, {options.seed: options.workdir}, names=NAMES, devices=options.devices, console=console)
    return report(options, start)


def _train(options: Options, task: Task) -> TrainConfig:
    """Return the training configuration, which begins from the start file in the run directory."""
    return TrainConfig(
        options.updates,
        options.batch_size,
        "stream" if task.streams else "epochs",
        evaluate_every=options.evaluate_every,
        evaluation_batch=min(options.batch_size, 16),
        start=options.workdir / START,
    )


def write_start(job: Job, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the arrays that a run starts from into its directory. A file with the same arrays stays as it is.

    Raises:
      UsageError: the directory holds another run, or one that started from other arrays. Then the file stays as it is, too.
    """
    if _are_in(job.path / START, arrays):
        return
    Run(NAMES, *job, Console(quiet=True)).check(digest(arrays))
    save_arrays(job.path / START, arrays, "--workdir")


def _are_in(path: Path, arrays: Mapping[str, np.ndarray]) -> bool:
    """Return whether a file holds these arrays. Another machine may have rounded them otherwise, which is no reason to refuse its run."""
    try:
        found = load_arrays(path)
    except UsageError:
        return False
    same = {name: array.shape for name, array in found.items()} == {name: array.shape for name, array in arrays.items()}
    return same and all(np.allclose(found[name], array, 1e-4, 1e-5) for name, array in arrays.items())


def report(options: Options, start: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluate the network at the start, after training and merged; write the merged network."""
    trained = load(options.workdir, data=NextSymbol)
    variables, config = merged(trained.variables, trained.recurrent), full_config(trained.recurrent_config)
    model = config.build(trained.task.input_size, trained.task.output_size, trained.task.reads)
    save(options.workdir / MERGED, variables["params"], "--workdir")
    metrics = {"start": trained.evaluate(None, start), "adapted": trained.evaluate(), "merged": trained.evaluate(model, variables)}
    return {
        "model": trained.config.model.label,
        "update": trained.update,
        "parameters": {"trained": num_params(trained.variables["params"]), "frozen": num_params(trained.variables[FROZEN])},
        "metrics": {split: {when: figures[split] for when, figures in metrics.items()} for split in metrics["start"]},
        "written": str(options.workdir / MERGED),
        "settings": changed_settings(config),
    }


def show(found: Mapping[str, Any], console: Console) -> None:
    """Print a table of the metrics, the numbers of parameters, and where the merged network is."""
    rows = [
        [split, metric, *(f"{figures[when][metric]:.5g}" for when in ("start", "adapted", "merged"))]
        for split, figures in found["metrics"].items()
        for metric in figures["start"]
    ]
    console.table(["split", "metric", "at the start", "adapted", "merged"], rows)
    console.say(f"{found['model']}: {found['parameters']['trained']:,} parameters trained, {found['parameters']['frozen']:,} frozen")
    settings = ", ".join(f"{name}={value!r}" for name, value in found["settings"].items())
    console.say(f"written: {found['written']}   parameters of ModelConfig({settings}), as for --train.start")


def main(arguments: Sequence[str] | None = None) -> None:
    """Fine-tune from a command line. Map errors to one line and an exit status."""
    console = Console()
    with leaving_with_a_line(console):
        about = "Train low-rank changes of a trained network on a new text."
        options = parse_dataclass(Options, arguments, PROGRAM, about, Options())
        found = fine_tune(options, Console(quiet=True) if options.json else console)
        print(json.dumps(found, indent=2)) if options.json else show(found, console)


if __name__ == "__main__":
    main()
