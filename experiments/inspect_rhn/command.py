"""Analysis of a trained recurrent highway network: Jacobians, gates, layers, initialization, dropout in evaluation.

    python -m experiments.inspect_rhn discs RUN_DIRECTORY          Gershgorin discs of the temporal Jacobian (Figure 2, eqs. 4, 10 and 14)
    python -m experiments.inspect_rhn flow RUN_DIRECTORY           Jacobians over several steps (eq. 2), and bounds of their norms
    python -m experiments.inspect_rhn bounds RUN_DIRECTORY         gamma sigma_max of each recurrent matrix (eq. 3)
    python -m experiments.inspect_rhn gates RUN_DIRECTORY          activity of the gates of each layer by step (Figure 5b)
    python -m experiments.inspect_rhn lesions RUN_DIRECTORY        training loss when one layer is closed, or held open (section 6)
    python -m experiments.inspect_rhn starts RUN_DIRECTORY         eigenvalues at initialization (section 3)
    python -m experiments.inspect_rhn monte-carlo RUN_DIRECTORY    loss of the mean of many networks with dropout

Source: Zilly et al. 2017. RUN_DIRECTORY is a run or a kept result. Each subcommand prints a table. Numbers are written to the run, as
discs.json and so on, and plots to its figures/, or both to --output; those of a kept result go to runs/EXPERIMENT/NAME-kept.

`discs`, `flow`, `bounds` and `gates` look at the network at initialization and after training. Examples are the first ones of the training
split; windows of a stream are read from the initial state. `lesions` reads the whole training split, or its first --examples. `discs`,
`flow` and `starts` also read runs of other recurrent cells, and `bounds` those of deep transition and Elman networks.
"""

from collections.abc import Mapping, Sequence

from experiments.inspect_rhn.dropout import Averaged, show_monte_carlo
from experiments.inspect_rhn.layers import Gates, Held, show_gates, show_lesions
from experiments.inspect_rhn.spectra import Bounds, Discs, Flow, Starts, show_bounds, show_discs, show_flow, show_starts
from lrpt.cli.command import RUN_UNCHANGED, leaving_with_a_line
from lrpt.cli.experiment import Subcommand
from lrpt.cli.finished.run_commands import on_run
from lrpt.cli.flags import command_line
from lrpt.cli.imports import without_imports
from lrpt.cli.subcommands import dispatch
from lrpt.runs.console import Console

PROGRAM = "python -m experiments.inspect_rhn"

COMMANDS: Mapping[str, Subcommand] = {
    "discs": on_run(Discs, show_discs),
    "flow": on_run(Flow, show_flow),
    "bounds": on_run(Bounds, show_bounds),
    "gates": on_run(Gates, show_gates),
    "lesions": on_run(Held, show_lesions),
    "starts": on_run(Starts, show_starts),
    "monte-carlo": on_run(Averaged, show_monte_carlo),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a subcommand. Exit with 2 if a flag is wrong, with 1 if a file is damaged."""
    words = command_line(arguments)
    if words[:1] in (["--help"], ["-h"]):
        print(__doc__)
        return
    console = Console()
    with leaving_with_a_line(console, RUN_UNCHANGED):
        dispatch(COMMANDS, without_imports(words), PROGRAM, console)
