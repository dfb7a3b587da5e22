"""Content of `result.json`."""

from collections.abc import Mapping, Sequence
from typing import Any

from lrpt.devices.hardware import describe_devices
from lrpt.networks.counting import count
from lrpt.runs.configuration import to_json
from lrpt.training.progress import Progress
from lrpt.training.setup import Setup


def result_of(
    setup: Setup, progress: Progress, update: int, stopped: str | None, evaluations: Sequence[Mapping[str, Any]], test: Mapping[str, float]
) -> dict[str, Any]:
    """Return the content of `result.json`.

    Args:
      setup: the run.
      progress: its best evaluation and its seconds.
      update: number of updates.
      stopped: why training stopped, a key of `ENDED`.
      evaluations: 'update' and metrics of each evaluation on the validation split.
      test: metrics of the best parameters on the test split.
    """
    counts = count(setup.config.model, setup.task.input_size, setup.task.output_size)
    valid = progress.best_metrics | setup.selection.extremes(evaluations, progress.best)
    return {
        **setup.names,
        "model": setup.config.model.label,
        "seed": setup.seed,
        "updates": update,
        "stopped": stopped,
        "seconds": round(progress.seconds, 2),
        "parameters": {"true": counts.true, "paper": counts.paper},
        **({"data": dict(setup.task.metadata)} if setup.task.metadata else {}),
        "best_update": progress.best["update"],
        "metrics": {"valid": valid, "test": dict(test)},
        **describe_devices(),
        "config": to_json(setup.config),
    }
