"""The command that analyses a trained recurrent highway network: Jacobians, gates, layers, initialization, dropout in evaluation.

    python -m experiments.inspect_rhn discs RUN_DIRECTORY          Gershgorin discs of the temporal Jacobian (Figure 2)
    python -m experiments.inspect_rhn gates RUN_DIRECTORY          activity of the gates of each layer by step (Figure 5b)
    python -m experiments.inspect_rhn lesions RUN_DIRECTORY        loss when one layer is closed (section 6)
    python -m experiments.inspect_rhn starts RUN_DIRECTORY         eigenvalues at initialization (section 3)
    python -m experiments.inspect_rhn monte-carlo RUN_DIRECTORY    loss of the mean of many networks with dropout

Source: Zilly et al. 2017. Each subcommand prints a table and writes a plot to the figures/ of the run; `monte-carlo` writes none. Examples
are the first ones of the training split; windows of a stream are read from the initial state. `discs` and `starts` also read runs of other
recurrent cells.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from lrpt.analysis.gates import gate_activity, gate_figure
from lrpt.analysis.initial_spectra import initialization_sweep, sweep_figure
from lrpt.analysis.jacobian import eigenvalues, gersgorin_discs, gersgorin_figure, states_before, step_jacobian
from lrpt.analysis.lesions import lesion_figure, lesions
from lrpt.cli.command import OF_A_READER, leaving_with_a_line
from lrpt.cli.experiment import Subcommand
from lrpt.cli.flags import check_seeds
from lrpt.cli.imports import without_imports
from lrpt.cli.limits import memory, refuse
from lrpt.cli.run_commands import OnRun, on_run
from lrpt.cli.subcommands import dispatch
from lrpt.errors import UsageError
from lrpt.networks.sequence_model import Recurrent, cell_params, initial_carry
from lrpt.recurrence import recur
from lrpt.runs.console import Console
from lrpt.training.loading import Loaded
from lrpt.training.monte_carlo import monte_carlo
from lrpt.training.step import forward

PROGRAM = "python -m experiments.inspect_rhn"


@dataclass(frozen=True)
class Discs(OnRun):
    """Plot Gershgorin discs at initialization and after training."""

    counts = ("examples",)

    examples: int = 8
    """examples that the means of the table cover, if they have the step; the first one is plotted"""
    steps: tuple[int, ...] = (1, 8, 24)
    """steps of the Jacobians, counted from 1"""


@dataclass(frozen=True)
class Gates(OnRun):
    """Plot the activity of gates as one heat map for each example."""

    counts = ("examples",)

    examples: int = 4
    """examples in the plot"""
    gate: str = "transform"
    """transform, carry or candidate"""


@dataclass(frozen=True)
class Shut(OnRun):
    """Plot the loss with each layer closed as bars."""

    counts = ("examples",)

    examples: int = 64
    """examples that the loss is averaged over"""


@dataclass(frozen=True)
class Starts(OnRun):
    """Plot eigenvalues at initialization, at the last step of the first examples, for the cell and depth of the run."""

    counts = ("examples",)

    examples: int = 4
    """examples that the means cover"""
    spreads: tuple[float, ...] = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)
    """standard deviations of recurrent entries"""
    sizes: tuple[int, ...] = (16, 64)
    """widths of the state"""
    identity: bool = False
    """add the unit matrix to each recurrent matrix"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sizes or min(self.sizes) < 1:
            raise UsageError(f"sizes is {' '.join(map(str, self.sizes)) or 'empty'}: expected widths of 1 or more")
        refuse("bytes of a matrix of --sizes", 4 * max(self.sizes) ** 2 >> 20, memory() >> 20, " MiB")
        if not self.spreads or not all(0 < spread < math.inf for spread in self.spreads):
            raise UsageError(f"spreads is {' '.join(map(str, self.spreads)) or 'empty'}: expected finite numbers above 0")


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


class Reading(NamedTuple):
    """Embedded time-major examples, and the network that reads them."""

    network: Recurrent
    params: Any
    carry: Any
    xs: Float[Array, "t b m"] | Int[Array, "t b"]
    mask: Bool[Array, "t b"] | None


def reading(trained: Loaded, variables: Any, examples: int) -> Reading:
    """Return the first training examples of a run, and its network with the given variables.

    Raises:
      UsageError: the network is no recurrent one, or there are fewer examples.
    """
    network, train, params = trained.recurrent, trained.task.splits["train"], variables["params"]["recurrent"]
    if examples > train.size:
        raise UsageError(f"examples is {examples}, and the run has {train.size} of them: choose fewer")
    batch = train.batch(train.arrays, jnp.arange(examples))
    xs = trained.embed(variables, jnp.swapaxes(batch.inputs, 0, 1))
    mask = None if batch.mask is None else batch.mask.T
    return Reading(network, cell_params(params, network), initial_carry(params, network, examples), xs, mask)  # type: ignore[arg-type]


def untrained(trained: Loaded) -> Any:
    """Return the variables at initialization, drawn again from the seed."""
    return trained.initial


def jacobians(read: Reading, steps: Sequence[int]) -> list[Float[np.ndarray, "b k k"]]:
    """Return the Jacobians at each of the steps, counted from 1, for all examples that have the step.

    Raises:
      UsageError: no example has one of them.
    """
    cell, (_, params, carry, xs, mask) = read.network.cell.step, read
    if not steps or min(steps) < 1 or max(steps) > len(xs):
        raise UsageError(f"steps is {' '.join(map(str, steps))}: expected numbers from 1 to {len(xs)}")

    @jax.jit
    def at(params: Any, places: Int[Array, " s"]) -> Float[Array, "s b k k"]:
        before = states_before(cell, params, carry, xs, mask)
        return jax.lax.map(lambda i: step_jacobian(cell, params, jax.tree.map(lambda a: a[i], before), xs[i]), places)

    found = np.asarray(at(params, jnp.asarray(steps) - 1))
    counted = np.ones((len(steps), found.shape[1]), bool) if mask is None else np.asarray(mask)[np.asarray(steps) - 1]
    if not counted.any(axis=1).all():
        raise UsageError(f"steps is {' '.join(map(str, steps))}, and no example is as long: choose earlier ones, or more --examples")
    return [of_step[valid] for of_step, valid in zip(found, counted, strict=True)]


def show_discs(options: Discs, trained: Loaded, console: Console) -> Path:
    """Print discs and eigenvalues at each step, and plot those of one example."""
    found, rows = {}, []
    for name, variables in (("untrained", untrained(trained)), ("trained", trained.variables)):
        for step, J in zip(options.steps, jacobians(reading(trained, variables, options.examples), options.steps), strict=True):
            found[f"{name}, step {step}"] = J[0]
            discs, largest = gersgorin_discs(J), np.abs(eigenvalues(J)).max(axis=-1)
            figures = discs.centres.mean(), discs.radii.mean(), largest.mean(), np.log(largest).mean()
            rows.append([name, str(step), *(f"{figure:.4f}" for figure in figures)])
    console.table(["network", "step", "mean centre", "mean radius", "spectral radius", "its logarithm"], rows)
    return gersgorin_figure(found, options.figures / "discs.png")


def show_gates(options: Gates, trained: Loaded, console: Console) -> Path:
    """Print the mean activity of each layer over steps and examples, and plot its means over units."""
    network, params, carry, xs, mask = reading(trained, trained.variables, options.examples)
    _check_highway(options, network)
    info = jax.jit(lambda params, xs: recur(network.cell.step, params, carry, xs, mask, outputs="info")[1][1])(params, xs)
    activity = gate_activity(info, options.gate, mask)
    rows = [[str(layer), *(f"{f(of_layer):.3f}" for f in (np.nanmean, np.nanstd))] for layer, of_layer in _by_layer(activity)]
    console.table(["layer", f"mean {options.gate} gate", "deviation over steps"], rows)
    return gate_figure(activity, options.figures / f"{options.gate}_gates.png", trained.label, options.gate)


def _by_layer(activity: Float[np.ndarray, "b l t"]) -> list[tuple[int, Float[np.ndarray, "b t"]]]:
    return list(enumerate(np.moveaxis(activity, 1, 0), start=1))


def show_lesions(options: Shut, trained: Loaded, console: Console) -> Path:
    """Print and plot the training loss with each layer closed."""
    task, model = trained.task, trained.model
    _check_highway(options, reading(trained, trained.variables, options.examples).network)
    train = task.splits["train"]

    @jax.jit
    def means(params: Any) -> dict[str, Array]:
        batch = train.batch(train.arrays, jnp.arange(options.examples))
        return jax.tree.map(jnp.mean, forward(model, task, {**trained.variables, "params": params}, batch).metrics)

    found = lesions(
        trained.variables["params"], lambda params: task.summarize({name: float(value) for name, value in means(params).items()})["loss"]
    )
    rows = [[str(layer), f"{loss:.5g}", f"{loss - found.intact:+.5g}"] for layer, loss in enumerate(found.shut, start=1)]
    console.table(["layer closed", "training loss", "increase"], [["none", f"{found.intact:.5g}", ""], *rows])
    return lesion_figure(found, options.figures / "lesions.png", trained.label)


def show_starts(options: Starts, trained: Loaded, console: Console) -> Path:
    """Print and plot eigenvalues for newly drawn matrices. The run gives the cell, its depth, its carry bias and the inputs."""
    read = reading(trained, trained.variables, options.examples)
    config, spec = read.network.config, read.network.spec
    if config.layers > 1:
        raise UsageError(f"{options.run} holds a network of {config.layers} layers: name a run of one")
    vectors = read.xs if jnp.issubdtype(read.xs.dtype, jnp.floating) else jax.nn.one_hot(read.xs, spec.input_size)
    how: dict[str, Any] = {"depth": spec.depth, "carry_bias": spec.carry_bias, "identity": options.identity}
    starts = initialization_sweep(config.cell, vectors, options.spreads, options.sizes, **how)
    rows = [
        [str(start.size), f"{start.spread:g}", *(f"{value:.4f}" for value in (start.centre, start.radius, start.spectral_radius))]
        for start in starts
    ]
    console.table(["units", "spread", "mean centre", "mean radius", "spectral radius"], rows)
    return sweep_figure(starts, options.figures / "starts.png", f"{config.cell}, depth {spec.depth}")


def show_monte_carlo(options: Averaged, trained: Loaded, console: Console) -> None:
    """Print the loss of the averaged probabilities, of single passes, and of the network without dropout."""
    if options.split not in trained.task.splits:
        raise UsageError(f"split is '{options.split}': choose from {', '.join(trained.task.splits)}")
    how: dict[str, Any] = {"passes": options.passes, "rows": options.rows, "seed": options.seed, "worst": _nats(options.worst)}
    found = monte_carlo(trained.model, trained.task, trained.variables, options.split, **how)
    rows = [["mean of probabilities", found.loss], ["single passes, mean", float(np.mean(found.passes))]]
    console.table(
        [f"{options.split}, {options.passes} passes", "nats", "perplexity"], [[name, f"{x:.4f}", f"{math.exp(x):.3f}"] for name, x in rows]
    )
    if found.left_out:
        console.say(f"{found.left_out} passes were left out")
    without = trained.evaluate().get(options.split)
    if without:
        console.say(f"without dropout: {without['loss']:.4f} nats, perplexity {math.exp(without['loss']):.3f}")


def _nats(perplexity: float) -> float:
    if not perplexity > 1:
        raise UsageError(f"worst is {perplexity}: expected a perplexity above 1")
    return math.log(perplexity)


def _check_highway(options: OnRun, network: Recurrent) -> None:
    config = network.config
    if config.cell not in ("rhn", "rhn_uncoupled") or config.layers > 1:
        raise UsageError(f"{options.run} holds a {config.label}: name a run of one recurrent highway network (rhn or rhn_uncoupled)")


COMMANDS: Mapping[str, Subcommand] = {
    "discs": on_run(Discs, show_discs),
    "gates": on_run(Gates, show_gates),
    "lesions": on_run(Shut, show_lesions),
    "starts": on_run(Starts, show_starts),
    "monte-carlo": on_run(Averaged, show_monte_carlo),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a subcommand. Exit with 2 if a flag is wrong, with 1 if a file is damaged."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] in (["--help"], ["-h"]):
        print(__doc__)
        return
    console = Console()
    with leaving_with_a_line(console, OF_A_READER):
        dispatch(COMMANDS, without_imports(words), PROGRAM, console)


if __name__ == "__main__":
    main()
