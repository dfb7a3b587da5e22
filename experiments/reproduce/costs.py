"""Costs of a run: measured by a few updates on this machine, or those of its preset in the list of experiments, or estimated.

`experiments.costs`, which makes that list, and `experiments.reproduce` both estimate by `estimate` and `ratio`.
"""

import hashlib
import json
import math
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import experiments
from lrpt.cli import limits
from lrpt.devices import hardware, parallel
from lrpt.engines.engine import Engine
from lrpt.engines.jobs import NamedJob
from lrpt.errors import UsageError
from lrpt.files import cache_folder, read_json
from lrpt.networks.conditional import ConditionalConfig
from lrpt.networks.counting import count_in_step
from lrpt.networks.protocol import NetworkConfig
from lrpt.runs.configuration import flatten, to_json
from lrpt.runs.console import Console
from lrpt.runs.files import write_json
from lrpt.runs.signals import StopRequests
from lrpt.tasks.images import CLASSES, ImageVectors, PermutedImages
from lrpt.training.config import RunConfig
from lrpt.training.program import Program
from lrpt.training.run import Run
from lrpt.training.trainer import Trainer

CALLS = 2
"""compiled calls that are timed, after one that is not"""

EVALUATION = 1 / 3
"""what an example costs in evaluation, as a share of what it costs in training: there is no backward pass"""

LOW_RANK = 1.35
"""seconds of an operation on a core for products by low-rank factors, relative to products by a full matrix, which reach a higher share of
the peak (presets of char_lm on a Xeon: 1.4 for lrd-3298-128 and 1.5 for lrd-1000-64-tied, relative to gru-1000, 1.2 for LSTMs)"""

LAUNCHES = 4e-5
"""seconds of one step of one layer on an accelerator, forward and back, however few numbers it computes (docs/gpu.md: 32 ms for 784
steps of a GRU of 128 units on an H100)"""

ENDLESS = 10**9
PIXELS = {"digits": 64, "mnist": 784}
"""pixels of the images of a source: steps if they are read one by one, inputs if they are read at once"""


class Cost(NamedTuple):
    """Cost of an update.

    Attributes:
      seconds: evaluations included, if it was measured.
      measured: whether it was measured, and not estimated.
      listed: whether it was measured for the list of experiments, perhaps on another machine.
    """

    seconds: float
    measured: bool
    listed: bool = False

    def hours(self, updates: float) -> float:
        """Return the hours of some updates."""
        return self.seconds * updates / 3600


class Costs:
    """Costs of configurations on this machine. Measured ones are kept in a file of the user's cache.

    Args:
      engine: measures in a process of its own.
      path: the file (None: `lrpt/costs.json` in the user's cache).
    """

    def __init__(self, engine: Engine, path: Path | None = None) -> None:
        self.engine, self.path = engine, path or cache_folder() / "costs.json"
        self._machine = f"{platform.node()}, {hardware.cores()} cores, {engine.accelerators} accelerators"
        self._known = _read(self.path)
        self._presets: dict[str, PresetCosts] = {}
        self._found: dict[tuple[RunConfig[Any], str], Cost] = {}

    def of(self, config: RunConfig[Any], experiment: str = "") -> Cost:
        """Return the cost of a configuration that was measured on this machine, or the one on a core that `PresetCosts` has.

        It is estimated without them on accelerators, and if no experiment is named.
        """
        if (config, experiment) not in self._found:
            self._found[config, experiment] = self._of(config, experiment)
        return self._found[config, experiment]

    def _of(self, config: RunConfig[Any], experiment: str) -> Cost:
        if seconds := self._known.get(self._key(config)):
            return Cost(seconds, measured=True)
        if self.engine.accelerators or not experiment:
            return Cost(estimate(config, bool(self.engine.accelerators)), measured=False)
        if experiment not in self._presets:
            self._presets[experiment] = preset_costs(experiment)
        return self._presets[experiment].of(config)

    def measure(self, one: NamedJob) -> str:
        """Measure the cost of a run's configuration if it is not known. Return why that was impossible, or an empty string."""
        key = self._key(one.job.config)
        if key in self._known:
            return ""
        try:
            found = self.engine.call(measured, one)
        except UsageError as error:  # the process that measured it died
            return str(error)
        if isinstance(found, str):
            return found
        self._known = {**_read(self.path), **self._known, key: found}
        self._found.clear()
        write_json(self.path, self._known)
        return ""

    def _key(self, config: RunConfig[Any]) -> str:
        settings = {name: value for name, value in _settings(config).items() if name != "data.dir"}
        content = json.dumps([self._machine, settings], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()


def _read(path: Path) -> dict[str, float]:
    """Return what a file of costs holds. A damaged one holds nothing: costs can be measured again."""
    try:
        content = read_json(path)
    except (OSError, ValueError):
        return {}
    return {key: value for key, value in content.items() if isinstance(value, float) and value > 0} if isinstance(content, Mapping) else {}


def _settings(config: RunConfig[Any]) -> dict[str, Any]:
    """Return the settings that the cost of an update may depend on, by dotted name."""
    return flatten(to_json(replace(config.compilation_key, train=replace(config.train, updates=1, start=None))))


def comparable(config: RunConfig[Any], group: str = "") -> str:
    """Return the settings of `_settings` as a text, without places: a run reads the same data wherever they are, and any file is one text.

    Args:
      config: the configuration.
      group: 'data' for the settings of the data only.
    """
    found = {name: value for name, value in _settings(config).items() if name != "data.dir" and name.startswith(group)}
    return json.dumps({name: value is not None if name == "data.file" else value for name, value in found.items()}, sort_keys=True)


def estimate(config: RunConfig[Any], accelerated: bool) -> float:
    """Return about how many seconds an update takes: six operations for each weight that a step multiplies by, example and step.

    Those of networks with low-rank matrices take `LOW_RANK` times as long on a core. On an accelerator, every step of every layer takes
    `LAUNCHES` more. The estimate reads no data, so it knows neither the vocabulary nor the length of sentences: most runs take 5 to 50
    times as long on a core.
    """
    weights = _weights(config.model.without_initialization, PIXELS[config.data.source] if isinstance(config.data, ImageVectors) else 1)
    operations = 6 * weights * config.train.batch_size * _steps(config.data)
    if not accelerated and _has_low_rank(config.model):
        operations *= LOW_RANK
    layers = getattr(config.model, "depth", 1) * getattr(config.model, "layers", 1)
    launches = LAUNCHES * _steps(config.data) * layers if accelerated else 0
    return operations / hardware.operations_per_second(cpu=not accelerated) + launches


def _has_low_rank(model: Any) -> bool:
    return getattr(getattr(model, "matrices", None), "kind", "").startswith("low_rank")


@cache
def _weights(model: NetworkConfig, inputs: int) -> int:
    """Return the weights of a step, for as many inputs or symbols as the network needs at least."""
    if isinstance(model, ConditionalConfig):
        return count_in_step(model, 2, 1)
    guided = getattr(getattr(model, "schedule", None), "guided_symbols", ())
    return count_in_step(model, max([inputs, *(1 + symbol for symbol in guided)]), 1 if inputs == 1 else CLASSES)


class Measured(NamedTuple):
    """A preset whose cost was measured.

    Attributes:
      data: settings of its data, by `comparable`.
      update: estimated seconds of an update.
      ratio: of measured to estimated cost.
    """

    data: str
    update: float
    ratio: float


def ratio(data: str, update: float, own: Sequence[Measured], all_ratios: Sequence[float]) -> float:
    """Return the ratio of measured to estimated cost of similar presets that were measured.

    Presets of the same experiment that read the same data come first, then all of the experiment. The ratio is interpolated between the
    next shorter and the next longer of their updates, in logarithms. If there is only one of the two, it is the ratio of that one. If none
    was measured, it is the median over all experiments.

    Args:
      data: settings of the data, by `comparable`.
      update: estimated seconds of an update.
      own: measured presets of the experiment.
      all_ratios: ratios of the measured presets of all experiments. If there are none, the ratio is 1.
    """
    if near := [one for one in own if one.data == data] or own:
        return _interpolated(sorted(near, key=lambda one: one.update), update)
    return statistics.median(all_ratios) if all_ratios else 1.0


def _interpolated(near: Sequence[Measured], update: float) -> float:
    """Return the ratio at `update` between presets sorted by their updates, or that of the first or the last of them beyond these."""
    updates, ratios = [math.log(one.update) for one in near], [math.log(one.ratio) for one in near]
    return math.exp(np.interp(math.log(update), updates, ratios))


@dataclass(frozen=True)
class PresetCosts:
    """Costs of the presets of an experiment on a core, as `python -m experiments` lists them.

    Attributes:
      updates: cost of an update of each preset that trains one model, by `comparable`.
      measured: the measured presets.
      all_ratios: ratios of the measured presets of all experiments.
    """

    updates: Mapping[str, Cost]
    measured: Sequence[Measured]
    all_ratios: Sequence[float]

    def of(self, config: RunConfig[Any]) -> Cost:
        """Return the cost of a preset, whatever the number of its updates, or an estimate that a similar preset corrects."""
        if known := self.updates.get(comparable(config)):
            return known
        seconds = estimate(config, accelerated=False)
        return Cost(seconds * ratio(comparable(config, "data"), seconds, self.measured, self.all_ratios), measured=False)


def preset_costs(name: str) -> PresetCosts:
    """Return the costs of the presets of an experiment. They are empty if there is no file of costs."""
    content = experiments.read_costs(experiments.COSTS).get("presets", {})
    presets = experiments.module(name).EXPERIMENT.presets
    found = [(presets[preset], cost) for preset, cost in content.get(name, {}).items() if preset in presets]
    single = sorted(((preset, cost) for preset, cost in found if not preset.compare), key=lambda one: one[1]["measured"])
    return PresetCosts(
        {
            comparable(one.config): Cost(3600 * cost["hours"] / one.config.train.updates, cost["measured"], cost["measured"])
            for one, cost in single
        },
        [Measured(comparable(one.config, "data"), cost["update"], cost["ratio"]) for one, cost in found if cost["measured"]],
        [cost["ratio"] for costs in content.values() for cost in costs.values() if cost["measured"]],
    )


def _steps(data: Any) -> int:
    if isinstance(data, PermutedImages):
        return PIXELS[data.source]
    return 1 if isinstance(data, ImageVectors) else limits.steps(data)


def measured(one: NamedJob) -> float | str:
    """Return the seconds of one update of a run, with its share of an evaluation, or one line on why it cannot be trained.

    A process bound to one core of a CPU counts its processor time: the time that other programs take is no cost of the run.
    """
    try:
        return _timed(one.job.config, one.job.seed)
    except UsageError as error:
        return " ".join(str(error).split())
    except Exception as error:
        if hardware.is_out_of_memory(error):
            return "out of memory"
        raise


def _timed(config: RunConfig[Any], seed: int) -> float:
    parallel.request_devices(1, 1, config.train.batch_size)
    names, quiet = {"experiment": "cost", "preset": "cost"}, Console(quiet=True)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(names, config, seed, Path(folder) / "run", quiet)
        layout = parallel.layout(1, config.train.batch_size, 1)
        calls = Program(config, run.task, layout).updates_per_call
        run.config = replace(config, train=replace(config.train, updates=ENDLESS, evaluate_every=ENDLESS, updates_per_call=calls))
        with closing(run), StopRequests() as stop:
            trainer = Trainer(Program(run.config, run.task, layout), {run: run.start()})
            trainer.train(calls, quiet, stop)
            seconds = seconds_of(lambda: trainer.train((1 + CALLS) * calls, quiet, stop)) / (CALLS * calls)
    evaluated = EVALUATION * run.task.splits["valid"].size / config.train.evaluate_every
    return seconds * (1 + evaluated / config.train.batch_size)


def seconds_of(function: Callable[[], Any]) -> float:
    """Call a function. Return the seconds that passed, or its processor time if this process has one core of a CPU."""
    clock = time.process_time if hardware.on_cpu() and hardware.cores() == 1 else time.perf_counter
    start = clock()
    function()
    return clock() - start
