"""Search for the kept runs of a configuration that a claim names."""

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.report.kept.records import Record
from lrpt.cli.experiment import Experiment
from lrpt.cli.flags import parse
from lrpt.optim import RECIPES
from lrpt.runs.configuration import defaults, flatten, full_name, to_json
from lrpt.runs.same_run import MAY_CHANGE, UNCOMPARED
from lrpt.training.config import RunConfig

# Nothing here decides the model after some number of updates.
_IMMATERIAL = MAY_CHANGE | {"model.loop.kind"}
_INTERVAL = "train.evaluate_every"

_RULES = "train.stop_below", "train.patience"
_LENGTH = "train.updates", *_RULES

# Named where they differ; the others are counted.
_IN_WORDS = {"model.size": "units", "train.updates": "updates"}


def settings(config: RunConfig[Any]) -> Mapping[str, Any]:
    """Return the settings of a configuration by dotted name."""
    return flatten(to_json(config))


def setting(config: RunConfig[Any], name: str) -> Any:
    """Return one setting of a configuration, by its full or short name; None if it has none of that name."""
    return settings(config).get(full_name(name))


def recorded(record: Record) -> Mapping[str, Any]:
    """Return the settings that `config.json` holds, by dotted name."""
    return _of_groups(record.config)


def _of_groups(content: Mapping[str, Any]) -> dict[str, Any]:
    return flatten({name: part for name, part in content.items() if isinstance(part, dict) and name not in UNCOMPARED})


def configuration(experiment: Experiment[Any], flags: str) -> RunConfig[Any]:
    """Return the configuration that flags give."""
    return parse(experiment, flags.split()).config


def interval_matters(config: RunConfig[Any]) -> bool:
    """Return whether the evaluation interval decides when the learning rate is halved or training ends."""
    return any(setting(config, name) is not None for name in ("train.patience", "optim.halve_after"))


class Wanted:
    """The configuration of a claim, flattened once for comparison with many runs.

    Args:
      config: the configuration.
      best: whether metrics of the best evaluation are compared, so that the evaluation interval is part of the configuration.
    """

    def __init__(self, config: RunConfig[Any], best: bool = False) -> None:
        self.settings = _with_rate(settings(config))
        self.defaults = defaults(config)
        self.immaterial = _IMMATERIAL if best or interval_matters(config) else _IMMATERIAL | {_INTERVAL}

    def trained(self, record: Mapping[str, Any]) -> bool:
        """Return whether a run trained with these settings, for any number of updates.

        Args:
          record: the content of the run's `config.json`. A setting that it lacks, because it was added later, has its default.
        """
        found = _with_rate(self.defaults | _of_groups(record))
        names = (self.settings.keys() | found.keys()) - self.immaterial
        return all(name in self.settings and name in found and _equal(name, self.settings[name], found[name]) for name in names)


def _with_rate(own: Mapping[str, Any]) -> dict[str, Any]:
    """Name the learning rate that a recipe has by itself."""
    recipe = RECIPES.get(own.get("optim.recipe", ""))
    rate = own.get("optim.learning_rate")
    return {**own, "optim.learning_rate": recipe.learning_rate if recipe is not None and rate is None else rate}


def _equal(name: str, wanted: object, found: object) -> bool:
    """Paths of one machine are not kept, so that a file equals any other."""
    return (wanted is None) == (found is None) if name == "data.file" else wanted == found


def runs_of(config: RunConfig[Any], experiment: Experiment[Any], records: Sequence[Record], best: bool = False) -> dict[int, Record]:
    """Return the runs of a configuration by seed.

    A seed may have several runs, which differ in their configured length and by rounding. The choice must not depend on how they ended.
    Runs that trained as long as the configuration says come first: the one configured for exactly this length, otherwise the one configured
    for the fewest updates. Seeds and models are then compared after the same number of updates. If no run is that long, the longest one
    counts.
    """
    wanted = Wanted(config, best)

    def suitability(run: Record) -> tuple[bool, bool, int]:
        own = recorded(run)
        exact = all(own.get(name, wanted.settings[name]) == wanted.settings[name] for name in _LENGTH)
        return (True, exact, -own.get("train.updates", run.updates)) if is_over(config, run) else (False, False, run.updates)

    runs = [r for r in records if r.experiment == experiment.name and wanted.trained(r.config)]
    by_seed = {run.seed: run for run in sorted(runs, key=suitability)}
    return {seed: by_seed[seed] for seed in sorted(by_seed)}


def differences(ours: RunConfig[Any], published: RunConfig[Any]) -> str:
    """Return in which settings our configuration differs from the published one: '256 units instead of 1,024, 2 other settings'."""
    a, b = settings(ours), settings(published)
    names = [name for name in a if a[name] != b.get(name) and name not in MAY_CHANGE - {"train.updates"} and name != _INTERVAL]
    said = [f"{_number(a[name])} {word} instead of {_number(b[name])}" for name, word in _IN_WORDS.items() if name in names]
    others = len([name for name in names if name not in _IN_WORDS and name != "model.embeddings.width"])
    return ", ".join([*said, *([f"{others} other settings" if others > 1 else "1 other setting"] if others else [])])


def _number(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def is_over(config: RunConfig[Any], run: Record) -> bool:
    """Return whether a run trained as long as its claim says: all updates, or up to a rule that the claim's configuration has.

    A run that made all updates is not over if the claim ends by patience, and the last evaluation is the best one.
    """
    own = recorded(run)
    by_rule = run.ended_by_rule and all(own.get(name, setting(config, name)) == setting(config, name) for name in _RULES)
    improving = setting(config, "train.patience") is not None and run.best_update == run.updates
    return by_rule or (run.updates >= setting(config, "train.updates") and not improving)


def excess(config: RunConfig[Any], run: Record) -> int:
    """Return by how many updates a run is longer than its claim says."""
    return max(0, run.updates - setting(config, "train.updates"))


EARLY = 0.1
"""share of the training before which unfinished networks say nothing"""


def has_only_begun(updates: int, length: int) -> bool:
    """Return whether a run has made less than a tenth of its claim's updates, too few for a value or an ordering."""
    return updates < EARLY * length
