"""Compression of the matrices of a trained run to a structure, such as low rank plus diagonal, for further training.

    python -m experiments.compress RUN_DIRECTORY --rank 8
    python -m experiments.compress RUN_DIRECTORY --error 0.2 --tied --output DIR
    python -m experiments.compress RUN_DIRECTORY --parametrization monarch --blocks 8
    python -m experiments.compress RUN_DIRECTORY --structures --rank 8     the distance from each structure, at equal numbers of parameters
    python -m experiments.compress --from FILE --rank 8 --output DIR       a GRU or LSTM of PyTorch or Flax: .pt, .safetensors, .npz

All layers and directions of a network of PyTorch are compressed in one call. With --output, the command writes the weights for Flax, the
state dict for PyTorch with the matrices multiplied out, and a PyTorch module that keeps the factors.

The command prints the approximation error of every matrix, and the parameters and metrics before and after compression. It writes the
compressed parameters to a file of named arrays, and prints the command that trains the smaller network further. The metrics after
compression are those before further training; see `lrpt.compression.network`.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from textwrap import indent
from typing import Annotated, Any

import tyro
from jaxtyping import PyTree

from lrpt.analysis.budgets import known_form
from lrpt.cli.command import RUN_UNCHANGED, leaving_with_a_line
from lrpt.cli.experiment import experiment_of
from lrpt.cli.finished.trained import flags, not_one_source, read_run
from lrpt.cli.flags import parse_dataclass
from lrpt.cli.imports import flags_of_imports
from lrpt.compression.moments import Moments
from lrpt.compression.nearest import check_error
from lrpt.compression.network import TARGETS, Compression, check_size, check_target, compress
from lrpt.compression.stored import full_matrices, specs_of
from lrpt.compression.survey import distances
from lrpt.errors import UsageError, check_at_least
from lrpt.interop import factorized
from lrpt.interop.files import SUFFIXES, load_weights, save_weights
from lrpt.interop.pytorch import Cells, as_linen, bound, is_state_dict, read, read_layers, replaced, write
from lrpt.matrices import num_params
from lrpt.networks.recurrent import Recurrent, RecurrentConfig
from lrpt.parametrizations import MatrixConfig
from lrpt.runs.configuration import flatten, to_json
from lrpt.runs.console import Console
from lrpt.runs.named_arrays import save
from lrpt.settings import OneOf, changed_settings
from lrpt.trained.compressing import EXAMPLES, moments_of
from lrpt.trained.loading import Loaded
from lrpt.trained.saving import check_free

PROGRAM = "python -m experiments.compress"
START, CELL = "start.npz", "cell.npz"


@dataclass(frozen=True)
class Options:
    """Options of the command."""

    run: tyro.conf.Positional[Path | None] = None
    """run directory, finished or not, or directory of a kept result"""
    source: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """instead of a run, a file with the weights of a GRU or LSTM of PyTorch or Flax: .npz, .safetensors or .pt"""
    layer: str | None = None
    """one layer of a PyTorch network, such as l0, or l0_reverse for the other direction (None: all)"""
    rank: int | None = None
    """rank d of every recurrent matrix, for structures that have a rank"""
    blocks: int = MatrixConfig.blocks
    """blocks of block-diagonal and Monarch matrices, rows of the outer factor of Kronecker products"""
    density: float = MatrixConfig.density
    """share of the entries that sparse matrices have"""
    error: float | None = None
    """instead of --rank: take the smallest rank with which no matrix has a larger relative output error (low rank only)"""
    parametrization: Annotated[
        str, OneOf("structure", TARGETS, notes="only for low rank, errors are weighted by the states of the training data")
    ] = "low_rank_plus_diagonal"
    structures: bool = False
    """compress nothing: print the distance of each matrix from each structure, at about the number of parameters of rank d plus diagonal"""
    tied: bool = False
    """use one projection R for all recurrent matrices (low rank only)"""
    input_rank: int | None = None
    """rank of the input matrices (None: they stay as they are)"""
    examples: int = EXAMPLES
    """training examples whose states weight the errors (0: all entries of a matrix have equal weight)"""
    output: Path | None = None
    """new or empty directory of the output and of further training (None: beside the run, runs/ for a kept result; nothing with --from)"""
    data_dir: Annotated[Path | None, tyro.conf.arg(name="data.dir")] = None
    """where the data sets are (None: where they were in training)"""
    json: bool = False
    """print a JSON object instead of a table"""

    def report(self, console: Console) -> dict[str, Any]:
        """Compress the run or the file. Return the report.

        Raises:
          UsageError: the options contradict each other.
        """
        check_at_least(0, self, "examples")
        self._check_used()
        self._check_values()
        if self.structures:
            return survey(self, console)
        if self.run is not None and self.source is None:
            return compress_run(self, self.run, console)
        if self.run is None and self.source is not None:
            return compress_cell(self, self.source)
        raise not_one_source(self.run, self.source)

    def _check_used(self) -> None:
        """Raise a UsageError if a flag has no effect here."""
        if self.layer is not None and self.run is not None:
            raise UsageError(f"layer is {self.layer}, and {self.run} is a run, whose layers are compressed together: leave --layer out")
        unused = {"output": self.output, "error": self.error, "tied": self.tied or None, "input_rank": self.input_rank}
        for name, value in unused.items():
            if self.structures and value is not None:
                raise UsageError(f"{name} is {value}, and --structures compresses nothing: leave --{name.replace('_', '-')} out")
        if self.output is not None:
            check_free("output", self.output)

    def _check_values(self) -> None:
        """Raise a UsageError if no network could be compressed so. `compress` checks it too, after minutes of work."""
        check_target(self.parametrization)
        if self.structures:
            return
        check_size(self.parametrization, self.rank, self.error, self.tied)
        if self.error is not None:
            check_error(self.error)

    def planned(self, network: Recurrent) -> RecurrentConfig | None:
        """Return the configuration that `compress` will return; None if the error decides the rank.

        Raises:
          UsageError: a size does not fit the matrices. `compress` checks it too, after minutes of work.
        """
        form, given = known_form(self.parametrization), {"rank": self.rank, "blocks": self.blocks, "density": self.density}
        needed = {setting: given[setting] for setting in form.settings}
        if self.input_rank is not None:
            _check_fit(network, "input", MatrixConfig("low_rank", self.input_rank))
        if self.error is not None:
            return None
        _check_fit(network, "recurrent", MatrixConfig(self.parametrization, **needed))
        return replace(network.config, parametrization=self.parametrization, tied=self.tied, **needed)

    def compress(self, params: PyTree, network: Recurrent, moments: Moments | None = None) -> Compression:
        """Compress the parameters of a network as the options specify."""
        how = {"parametrization": self.parametrization, "tied": self.tied, "input_rank": self.input_rank, "moments": moments}
        return compress(params, network, rank=self.rank, error=self.error, blocks=self.blocks, density=self.density, **how)


def _check_fit(network: Recurrent, role: str, storage: MatrixConfig) -> None:
    """Raise a UsageError if the matrices of a role cannot be stored so."""
    for name, spec in specs_of(network, role).values():
        known_form(storage.kind).arrays(name, spec, storage)


def survey(options: Options, console: Console) -> dict[str, Any]:
    """Return how near every structure comes to every recurrent matrix of a run or cell.

    Raises:
      UsageError: neither or both are named, or there is no rank to give the number of parameters.
    """
    if options.rank is None:
        raise UsageError("--structures has no --rank, which gives the number of parameters: add it")
    check_at_least(1, options, "rank")
    if (options.run is None) == (options.source is None):
        raise not_one_source(options.run, options.source)
    if options.source is not None:
        cells = _cells(options, load_weights(options.source))
    else:
        trained = read_run(options.run, console, data_dir=options.data_dir)  # type: ignore[arg-type]
        cells = {"": (trained.variables["params"]["recurrent"], trained.recurrent)}
    matrices = {
        f"{name}/{matrix}" if len(cells) > 1 else matrix: full
        for name, (params, network) in cells.items()
        for matrix, full in full_matrices(params, network).items()
    }
    return {"structures": [distance._asdict() for distance in distances(matrices, options.rank)]}


def _cells(options: Options, arrays: Mapping[str, Any]) -> Cells:
    """Return the layers and directions of a file, or the one that the options name."""
    return read_layers(arrays) if options.layer is None else {"l0": read(arrays, options.layer)}


def compress_run(options: Options, path: Path, console: Console) -> dict[str, Any]:
    """Compress a run, and write the file from which training starts. Return the report.

    Raises:
      UsageError: the run cannot be read, the options do not fit it, or the output directory holds files.
    """
    trained = read_run(path, console, data_dir=options.data_dir)
    params, network = trained.variables["params"], trained.recurrent
    planned = options.planned(network)
    if planned is not None:
        check_free("output", options.output or _beside(trained, planned))
    found = options.compress(params["recurrent"], network, moments_of(trained, options.examples))
    smaller = {**params, "recurrent": found.params}
    output = options.output or _beside(trained, found.config)
    start = output / START
    check_free("output", output)
    before = trained.evaluate()
    after = trained.with_network(found.config, {**trained.variables, "params": smaller}).evaluate()
    save(start, smaller, "--output")
    return {
        "run": str(path),
        "update": trained.update,
        **_report(network, found, params, smaller),
        "metrics": {split: {"before": before[split], "after": after[split]} for split in before},
        "written": str(start),
        **_further(trained, found, start),
    }


def _further(trained: Loaded, found: Compression, start: Path) -> dict[str, str]:
    """Return the command that trains a compressed run further, or the configuration if the run is of a program of the user's."""
    experiment = experiment_of(trained.experiment)
    if experiment is None:
        settings = ", ".join(f"{name}={value!r}" for name, value in changed_settings(found.config).items())
        return {"configuration": f"ModelConfig({settings}), TrainConfig(start=Path({str(start)!r}))"}
    config = replace(trained.config, model=found.config, train=replace(trained.config.train, start=start))
    settings = flags(experiment, trained.preset, flatten(to_json(config)))
    words = [*flags_of_imports(), *settings, "--seed", str(trained.seed), "--workdir", str(start.parent)]
    return {"command": shlex.join(["python", "-m", f"experiments.{experiment.name}", *words])}


def compress_cell(options: Options, path: Path) -> dict[str, Any]:
    """Compress the layers of a network of PyTorch or Flax, and write them if a directory is given. Return the report.

    Raises:
      UsageError: the file cannot be read, or the options do not fit what it holds.
    """
    arrays = load_weights(path)
    cells = _cells(options, arrays)
    found = {name: options.compress(params, network) for name, (params, network) in cells.items()}
    smaller = {name: (found[name].params, Recurrent(found[name].config, network.input_size)) for name, (_, network) in cells.items()}
    report = {"from": str(path), **_report_of_layers(cells, found)}
    if options.output is None:
        return report
    _, params = as_linen(smaller)
    written = options.output / CELL
    save(written, params, "--output")
    paths = [written, *_for_pytorch(options, path, arrays, smaller)]
    return {**report, "written": str(written), "files": [str(each) for each in paths], "python": _python(smaller, written)}


def _report_of_layers(cells: Cells, found: Mapping[str, Compression]) -> dict[str, Any]:
    """Return labels and sums over all layers; names of matrices begin with the layer if there are several."""
    several = len(cells) > 1
    reports = {name: _report(network, found[name], params, found[name].params) for name, (params, network) in cells.items()}
    matrices = [m | {"matrix": f"{name}/{m['matrix']}"} if several else m for name, each in reports.items() for m in each["matrices"]]
    (first, *_), when = reports.values(), ("before", "after")
    label = {t: first["model"][t] + (f" x {len(cells)} (layers, directions)" if several else "") for t in when}
    return {"model": label, "parameters": {t: sum(r["parameters"][t] for r in reports.values()) for t in when}, "matrices": matrices}


def _for_pytorch(options: Options, source: Path, arrays: Mapping[str, Any], cells: Cells) -> list[Path]:
    """Write a state dict like the one that was read, and the module with factors. Return the paths."""
    output = options.output or Path()
    cell, layers = bound(cells)
    width = next(iter(cells.values()))[1].input_size
    paths = list(factorized.write(output, factorized.of_layers(cell, layers, width)))
    if is_state_dict(arrays):
        state_dict = replaced(arrays, write(cell, layers if options.layer is None else {options.layer: layers["l0"]}))
        paths.append(output / f"state_dict{source.suffix if source.suffix in SUFFIXES else '.npz'}")
        save_weights(paths[-1], state_dict)
    return paths


def _python(cells: Cells, path: Path) -> str:
    """Return Python code that loads the layers of a file, for training in another network."""
    width = next(iter(cells.values()))[1].input_size

    def rnn(name: str) -> str:
        config = cells[name][1].config
        matrices = f"{_constructed(config.recurrent_matrices)}, {_constructed(config.input_matrices)}"
        return f"RNN(Cell({config.cell!r}, {config.size}, {matrices}))"

    forward = [name for name in cells if not name.endswith("_reverse")]
    layers = [f"Bidirectional({rnn(k)}, {rnn(f'{k}_reverse')})" if f"{k}_reverse" in cells else rnn(k) for k in forward]
    return f"""\
import jax
from lrpt import MatrixConfig
from lrpt.interop.linen import RNN, Bidirectional, Cell, Layers
from lrpt.runs.named_arrays import load
network = Layers([{", ".join(layers)}])
template = jax.eval_shape(network.init, jax.random.key(0), jax.numpy.zeros((1, 1, {width})))["params"]
params = load({str(path)!r}, template)
ys = network.apply({{"params": params}}, jax.numpy.zeros((1, 5, {width})))  # batch, time, inputs"""


def _constructed(config: MatrixConfig) -> str:
    """Return Python code that makes a configuration, without settings that have their defaults, and sizes that its kind does not read."""
    left_out = {"kind", "rank", "blocks", "density"} - set(known_form(config.kind).settings)
    named = {field.name: getattr(config, field.name) for field in fields(config) if field.name not in left_out}
    words = (f"{name}={value!r}" for name, value in named.items() if value != getattr(MatrixConfig, name))
    return f"MatrixConfig({', '.join([repr(config.kind), *words])})"


def _report(network: Recurrent, found: Compression, before: PyTree, after: PyTree) -> dict[str, Any]:
    return {
        "model": {"before": network.config.label, "after": found.config.label},
        "parameters": {"before": num_params(before), "after": num_params(after)},
        "matrices": [asdict(matrix) for matrix in found.matrices],
    }


def _beside(trained: Loaded, config: RecurrentConfig) -> Path:
    """Return where a run is trained further by default: a directory beside its own, or one below runs/ for a kept result."""
    directory = trained.path.resolve() if trained.path.name in ("", "..") else trained.path
    if trained.is_kept:
        directory = Path("runs") / trained.experiment / directory.name
    stored = config.matrices
    form = known_form(stored.kind)
    name = f"{form.short.lower()}{'-'.join(str(getattr(stored, size)) for size in form.settings)}{'-tied' if stored.tied else ''}"
    return directory.with_name(f"{directory.name}-{name}")


def show(report: Mapping[str, Any], console: Console) -> None:
    """Print the report as a table and some lines."""
    if "structures" in report:
        rows = [_distance_row(**distance) for distance in report["structures"]]
        console.table(["matrix", "structure", "sizes", "parameters", "residual"], rows)
        return
    columns = ["matrix", "shape", "rank", "residual", "output error", "iterations"]
    console.table(columns, [_row(**matrix) for matrix in report["matrices"]])
    before, after = report["parameters"]["before"], report["parameters"]["after"]
    console.say(f"{report['model']['before']} -> {report['model']['after']}: {before:,} -> {after:,} parameters ({after / before:.1%})")
    if after > before:
        console.warn("the network has more parameters than before: choose a lower rank or another parametrization")
    for split, figures in report.get("metrics", {}).items():
        changes = (f"{name} {value:.5g} -> {figures['after'][name]:.5g}" for name, value in figures["before"].items())
        console.say(f"{split}: {'  '.join(changes)}")
    for path in report.get("files", [report["written"]] if "written" in report else []):
        console.say(f"written: {path}")
    if "python" in report:
        console.say(f"load it as a part of another network:\n{indent(report['python'], '  ')}")
    if "configuration" in report:
        console.say(f"train it further with this configuration in your program:\n  {report['configuration']}")
    if "command" in report:
        console.say(f"train it further:\n  {report['command']}")


def _row(matrix: str, shape: Sequence[int], rank: int | None, residual: float, output_error: float | None, iterations: int) -> list[str]:
    of_outputs = "" if output_error is None else f"{output_error:.4f}"
    return [matrix, " x ".join(map(str, shape)), "" if rank is None else str(rank), f"{residual:.4f}", of_outputs, str(iterations)]


def _distance_row(matrix: str, parametrization: str, sizes: Mapping[str, Any], parameters: int, residual: float) -> list[str]:
    written = ", ".join(f"{name} {value:g}" for name, value in sizes.items())
    return [matrix, parametrization.replace("_", " "), written, f"{parameters:,}", f"{residual:.4f}"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Compress, and print the report. Exit with 2 if a flag is wrong, with 1 if a file is damaged or cannot be written."""
    console = Console()
    with leaving_with_a_line(console, RUN_UNCHANGED):
        about = "Replace the matrices of a trained network by the nearest ones of a structure, as a start for further training."
        options = parse_dataclass(Options, arguments, PROGRAM, about, Options())
        report = options.report(console)
        print(json.dumps(report, indent=2)) if options.json else show(report, console)


if __name__ == "__main__":
    main()
