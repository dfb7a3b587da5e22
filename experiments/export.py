"""Export of a trained run for small devices and for PyTorch: files, and a table of size, score and latency.

    python -m experiments.export RUN_DIRECTORY --output DIR
    python -m experiments.export RUN_DIRECTORY --beside DENSE_RUN     another run in the same table

Files: sequence.jax and step.jax (`jax.export`; with -int8, matrices are 8-bit integers), network.py and network.npz (PyTorch, low-rank
matrices as factors), and state_dict.npz for `torch.nn.GRU` or `LSTM` if PyTorch has the cell. Running a .jax file needs JAX alone.
If a task standardizes its data, programs and modules contain the scaling; scaling.json has its constants for state_dict.npz.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import tyro
from jaxtyping import PyTree

from lrpt.analysis.timing import in_turns
from lrpt.cli.command import RUN_UNCHANGED, leaving_with_a_line
from lrpt.cli.finished.trained import read_run
from lrpt.cli.flags import parse_dataclass
from lrpt.compression.quantization import dequantize, num_bytes, quantize
from lrpt.errors import UsageError, check_at_least
from lrpt.interop import export, factorized, pytorch
from lrpt.interop.files import save_weights
from lrpt.matrices import num_params
from lrpt.runs.console import Console
from lrpt.runs.files import check_directory, write_bytes, write_json
from lrpt.trained.loading import Loaded

PROGRAM = "python -m experiments.export"
STATE_DICT, SCALING = "state_dict.npz", "scaling.json"
CALLS = 50
"""steps that are timed together"""


@dataclass(frozen=True)
class Options:
    """Flags of the command."""

    run: tyro.conf.Positional[Path | None] = None
    """run directory, finished or not, or directory of a kept result"""
    output: Path | None = None
    """where to write (None: write nothing, print the table)"""
    beside: tuple[Path, ...] = ()
    """other runs of the same task for the table, such as one with dense matrices"""
    rounds: int = 20
    """rounds of timing; in each round every contender takes 50 steps"""
    data_dir: Annotated[Path | None, tyro.conf.arg(name="data.dir")] = None
    """where the data sets are (None: where they were in training)"""
    json: bool = False
    """print a JSON object instead of a table"""


@dataclass(frozen=True)
class Contender:
    """A row of the table.

    Attributes:
      name: label of the network and of its form.
      parameters: number of scalars.
      kilobytes: of all weights.
      metrics: of the test split; empty for networks that were not trained, or whose data are missing.
      step: function that reads one step of one sequence.
    """

    name: str
    parameters: int
    kilobytes: float
    metrics: Mapping[str, float]
    step: Callable[[], Any]


def labels(runs: Sequence[Loaded]) -> list[str]:
    """Return the label of each network, with the directory of its run if several have the same label.

    Raises:
      UsageError: one is no recurrent network.
    """
    found = [trained.recurrent.config.label for trained in runs]
    return [label + (f" ({trained.path})" if found.count(label) > 1 else "") for label, trained in zip(found, runs, strict=True)]


def has_data(trained: Loaded, console: Console) -> bool:
    """Return whether there are data to compute metrics on. Programs need none, so a kept result that lacks its data gets a warning."""
    try:
        return bool(trained.task.splits)
    except UsageError as error:
        console.warn(f"the table has no score of {trained.path}, because {error}")
        return False


def contenders(trained: Loaded, label: str, scored: bool = True) -> list[Contender]:
    """Return a network with the weights of its run, and with its matrices in 8-bit integers; with metrics if it is to be scored."""
    found = []
    for form, variables in forms(trained).items():
        restored = {**variables, "params": dequantize(variables["params"])}
        metrics = trained.evaluate(variables=restored)["test"] if scored else {}
        program = jax.jit(programs(trained, variables, ("cpu",))["step"].call)
        count, size = num_params(trained.variables["params"]), num_bytes(variables["params"]) / 1000
        found.append(Contender(f"{label}, {form}", count, size, metrics, _stepping(trained, program)))
    return found


def forms(trained: Loaded) -> dict[str, Any]:
    """Return the variables in float32 and in int8."""
    return {"float32": trained.variables, "int8": {**trained.variables, "params": quantize(trained.variables["params"])}}


def programs(trained: Loaded, variables: PyTree, platforms: Sequence[str]) -> dict[str, Any]:
    """Return the exported programs by name: a whole sequence, and one step, both in the units of the data."""
    task = trained.interface
    parts = trained.model, variables, task.step, task.dtype
    whole = export.sequence(*parts, scaling=task.scaling, platforms=platforms)
    step = export.one_step(*parts, reads=task.reads, scaling=task.scaling, platforms=platforms)
    return {"sequence": whole, "step": step}


def _stepping(trained: Loaded, program: Any) -> Callable[[], Any]:
    """Return a function that reads one step and keeps the state, as on a stream."""
    x = np.zeros((1, *trained.interface.step), trained.interface.dtype)
    state = jax.tree.leaves(trained.start(1).carry)

    def step() -> None:
        nonlocal state
        prediction, *state = program(x, False, *state)
        np.asarray(prediction)

    return step


def of_pytorch(trained: Loaded) -> list[Contender]:
    """Return PyTorch's dense layer of the same size with a readout, not trained; nothing if PyTorch is not installed."""
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        return []
    torch.set_num_threads(1)  # its threads wait actively, and would slow down the contender that comes next
    config, task = trained.recurrent_config, trained.interface
    kind = torch.nn.LSTM if config.cell == "lstm" else torch.nn.GRU
    width = config.embedding_width or task.input_size
    layer, readout = kind(width, config.size, config.layers), torch.nn.Linear(config.size, task.output_size)
    x, state = torch.zeros(1, 1, width), None

    def step() -> None:
        nonlocal state
        with torch.inference_mode():
            y, state = layer(x, state)
            readout(y).numpy()

    count = sum(p.numel() for module in (layer, readout) for p in module.parameters())
    return [Contender(f"PyTorch nn.{kind.__name__} {config.size}, dense", count, 4 * count / 1000, {}, step)]


def factorized_contender(trained: Loaded, arrays: PyTree) -> list[Contender]:
    """Return the PyTorch module with low-rank matrices; nothing if PyTorch is not installed."""
    try:
        import torch  # pyright: ignore[reportMissingImports]

        from lrpt.interop.torch_network import Network
    except ImportError:
        return []
    weights = {name: array for name, array in arrays.items() if name != "config"}
    network = Network(json.loads(arrays["config"].item()), weights)
    x, state = torch.tensor(np.zeros((1, 1, *trained.interface.step), trained.interface.dtype)), None

    def step() -> None:
        nonlocal state
        with torch.inference_mode():
            y, state = network(x, state)
            y.numpy()

    count = num_params(weights)
    return [Contender(f"PyTorch module, {trained.config.model.label}", count, 4 * count / 1000, {}, step)]


def microseconds(steps: Sequence[Callable[[], Any]], rounds: int) -> list[float]:
    """Return the time of a call of each function in microseconds: the shortest of all rounds, which other programs disturbed least."""
    return [1e6 * min(found) for found in in_turns(dict(enumerate(steps)), rounds, CALLS, untimed=CALLS).values()]


def report(options: Options, console: Console) -> dict[str, Any]:
    """Export a run. Return the rows of the table and the written files.

    Raises:
      UsageError: a run cannot be read, or its network cannot be exported.
    """
    check_at_least(1, options, "rounds")
    if options.run is None:
        raise UsageError("no run is given: name a run directory, or the directory of a kept result")
    if options.output is not None:
        check_directory("output", options.output)  # the work before the first file takes a minute
    runs = [read_run(path, console, data_dir=options.data_dir) for path in (options.run, *options.beside)]
    first, scored = runs[0], [has_data(trained, console) for trained in runs]
    arrays, reason = _factorized(first)
    rows = [row for parts in zip(runs, labels(runs), scored, strict=True) for row in contenders(*parts)] + of_pytorch(first)
    rows += factorized_contender(first, arrays) if arrays else []
    times = microseconds([row.step for row in rows], options.rounds)
    table = [
        {"network": row.name, "parameters": row.parameters, "kB": row.kilobytes, "test": row.metrics, "us": time}
        for row, time in zip(rows, times, strict=True)
    ]
    written, missing = ([], {}) if options.output is None else _written(first, options.output, arrays, reason)
    return {"run": str(options.run), "table": table, "written": written, "not_written": missing, "scaling": first.scaling.to_json()}


def _factorized(trained: Loaded) -> tuple[factorized.Network | None, str]:
    """Return the network for PyTorch's module, or None and the reason if the module has no such cell or matrices."""
    task = trained.interface
    try:
        found = factorized.of_model(trained.variables["params"], trained.recurrent_config, task.input_size, task.reads, task.scaling)
    except UsageError as error:
        return None, str(error)
    return found, ""


def _state_dict(trained: Loaded) -> tuple[Mapping[str, np.ndarray] | None, str]:
    """Return the arrays for PyTorch's own layers, or None and the reason if PyTorch has no such cell."""
    try:
        return pytorch.write(*pytorch.bound_layers(trained.variables["params"]["recurrent"], trained.recurrent)), ""
    except UsageError as error:
        return None, str(error)


def _written(trained: Loaded, output: Path, arrays: factorized.Network | None, reason: str) -> tuple[list[str], dict[str, str]]:
    """Write the files. Return their paths, and by name why the others are not written; `reason` says so of PyTorch's module."""
    paths, missing = [], {"network.py": reason} if reason else {}
    output.mkdir(parents=True, exist_ok=True)
    for form, variables in forms(trained).items():
        for name, program in programs(trained, variables, export.PLATFORMS).items():
            paths.append(output / f"{name}{'-int8' if form == 'int8' else ''}.jax")
            write_bytes(paths[-1], _serialized(program))
    if arrays is not None:
        paths += factorized.write(output, arrays)
    state_dict, why = _state_dict(trained)
    if state_dict is None:
        missing[STATE_DICT] = why
    else:
        save_weights(output / STATE_DICT, state_dict)
        paths.append(output / STATE_DICT)
    if constants := trained.scaling.to_json():
        paths.append(output / SCALING)
        write_json(paths[-1], constants)
    return [str(path) for path in paths], missing


def _serialized(program: Any) -> bytes:
    try:
        return bytes(program.serialize())
    except ImportError:
        raise UsageError("jax.export needs flatbuffers to write programs: pip install flatbuffers, or pip install -e '.[export]'") from None


def show(found: Mapping[str, Any], console: Console) -> None:
    """Print the table and the written files."""
    metrics = dict.fromkeys(name for row in found["table"] for name in row["test"])
    rows = []
    for row in found["table"]:
        scores = [f"{row['test'][name]:.4g}" if name in row["test"] else "" for name in metrics]
        rows.append([row["network"], f"{row['parameters']:,}", f"{row['kB']:.1f}", *scores, f"{row['us']:.0f}"])
    console.table(["network", "parameters", "kB", *(f"test {name}" for name in metrics), "µs a step, batch 1"], rows)
    for path in found["written"]:
        console.say(f"written: {path} ({Path(path).stat().st_size / 1000:.1f} kB)")
    for name, reason in found["not_written"].items():
        console.say(f"not written: {name}: {reason}")
    if found["written"] and found["scaling"]:
        console.say(_on_units(found))


def _on_units(found: Mapping[str, Any]) -> str:
    """Return a line on the units of the written files, for a task with a scaling."""
    line = f"units: exported programs scale {' and '.join(found['scaling'])} themselves, so give them data without standardization"
    if "inputs" not in found["scaling"] or not any(Path(path).name == STATE_DICT for path in found["written"]):
        return line
    return f"{line}; {STATE_DICT} cannot: give it (x - mean) / standard_deviation, with the constants of the inputs in {SCALING}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command. Exit with 2 if a flag is wrong, 1 if a file is damaged or cannot be written."""
    console = Console()
    with leaving_with_a_line(console, RUN_UNCHANGED):
        about = "Export a trained run as programs, with 32-bit and 8-bit weights, and for PyTorch. Print size, score and latency."
        options = parse_dataclass(Options, arguments, PROGRAM, about, Options())
        found = report(options, console)
        print(json.dumps(found, indent=2)) if options.json else show(found, console)


if __name__ == "__main__":
    main()
