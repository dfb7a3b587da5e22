"""Studies of the lattice paper as subcommands: losses and convergence, statistical efficiency, gradients by layer.

    python -m experiments.lattice convergence      seven models: losses (Table 1), by epoch (Figures 3, 4), epochs until the best (Figure 6)
    python -m experiments.lattice efficiency       the same models on 20, 40, 60, 80 and 100 % of the data (Figure 5)
    python -m experiments.lattice gradients        a GRU and an LRU of ten layers: norms of gradients by layer and epoch (Figure 7)

With `--data.source ptb_joined --data.dir DIR --data.text-share 10` they read a tenth of the joined Penn Treebank, with
`--data.file BOOK.txt --data.text-share 20` a fifth of War and Peace, with `--data.source enwik8 --data.file PREFIX` the bytes of a
prefix of enwik8; by default the documentation of Python. Texts are read as the original code reads them (`experiments.lattice`).

Parameters start as in the original code; `--initialization lru glorot` trains each model from both starts. Each study trains the runs that
are missing below `--workdir`, resumes interrupted ones, and writes a JSON file and plots of the finished runs. The runs on all of the data
are the same for `convergence` and `efficiency`, and are trained once. An epoch is one reading of the training split, after which a network
is evaluated. Epochs until convergence are the epochs until the lowest validation loss; a run that is best at the last epoch allowed would
have needed at least as many.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.lattice.gradients_figure import layer_norms_by_epoch
from experiments.lattice.losses_figure import curves_of
from experiments.lattice.models import name_of
from experiments.lattice.options import Convergence, Efficiency, Gradients, Options
from experiments.lattice.tables import show_convergence, show_efficiency, show_gradients
from lrpt.cli.experiment import Subcommand
from lrpt.cli.studies import Finished, Row, StudyCommand
from lrpt.runs.console import Console
from lrpt.runs.run_directory import RunDirectory
from lrpt.training.loop import Job


def identify(options: Options, job: Job) -> Row:
    """Return the model of a run, its initialization, its share of the data and its seed, as its row has them."""
    model: Any = job.config.model
    return {
        "model": name_of(model),
        "initialization": model.initial.kind,
        "share": options.share(job.config.data),
        **{name: getattr(model, name) for name in ("cell", "size", "layers", "depth")},
        "seed": job.seed,
    }


def keep(options: Options, job: Job, result: Mapping[str, Any]) -> Row:
    """Return the row of a run: its model, its metrics on the test split at the best validation loss, the epoch of that loss, and curves."""
    epoch = job.config.train.evaluate_every
    lines = RunDirectory(job.path).metrics()
    return {
        **identify(options, job),
        "parameters": result["parameters"]["true"],
        "loss": result["metrics"]["test"]["loss"],
        "bits_per_character": result["metrics"]["test"]["bits_per_character"],
        "valid_loss": result["metrics"]["valid"]["loss"],
        "epochs_to_best": result["best_update"] // epoch,
        "epochs": result["updates"] // epoch,
        "updates": result["updates"],
        "seconds": result["seconds"],
        "losses": (losses := curves_of(lines)),
        **({"loss_after_one_epoch": losses["test"][0]} if losses["test"] else {}),
        **({"gradient_norms": layer_norms_by_epoch(lines).tolist()} if isinstance(options, Gradients) else {}),
    }


def study(name: str, show: Callable[[Any, Sequence[Finished], Console], Mapping[str, Any]]) -> StudyCommand[Any]:
    """Return the study of this name, whose summary is `<name>.json`."""
    return StudyCommand(
        experiment="lattice",
        preset=lambda options: "custom",
        summary=f"{name}.json",
        rows="runs",
        together=lambda options: (options.seeds * len(options.initialization), options.batch_size),
        jobs=lambda options: options.jobs(),
        keep=keep,
        show=show,
        head={"study": name},
        identify=identify,
    )


def _subcommand(name: str, kind: type[Options], show: Callable[[Any, Sequence[Finished], Console], Mapping[str, Any]]) -> Subcommand:
    found = study(name, show)
    return Subcommand(kind, found.run, kind(), kind.__doc__ or "", study=found)


STUDIES: Mapping[str, Subcommand] = {
    "convergence": _subcommand("convergence", Convergence, show_convergence),
    "efficiency": _subcommand("efficiency", Efficiency, show_efficiency),
    "gradients": _subcommand("gradients", Gradients, show_gradients),
}
