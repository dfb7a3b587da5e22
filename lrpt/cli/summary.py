"""Summary of several runs: a table, `summary.json`, and learning curves."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

from lrpt.analysis.curves import Curve, Sized, learning_curves, score_over_parameters
from lrpt.errors import UsageError
from lrpt.metrics import is_lower_better
from lrpt.runs.configuration import flatten
from lrpt.runs.console import Console
from lrpt.runs.files import write_json
from lrpt.runs.layout import FIGURES, OLDER, RESULT
from lrpt.runs.run_directory import RunDirectory
from lrpt.runs.same_run import MAY_CHANGE

Result = dict[str, Any]

SUMMARY = "summary.json"
"""File of the results of several runs, in the directory above theirs."""

SILENT = MAY_CHANGE - {"train.updates", "train.stop_below", "train.patience"}
"""Settings that labels leave out: all that a resumed run may change, except the length of training."""


def summarize(
    root: Path,
    score: str,
    results: Sequence[Result],
    directories: Sequence[Path],
    title: str,
    console: Console,
    chooses: bool = False,
) -> None:
    """Print the table of these results. Write `summary.json` (of every result below `root`) and the plots.

    If it `chooses`, the table and the plots show each model with one learning rate, the best one on the validation split.
    """
    if chooses:
        kept = with_best_learning_rates(results, score)
        results, directories = [results[i] for i in kept], [directories[i] for i in kept]
    columns = [*_columns(score), *(["learning rate"] if chooses else [])]
    groups = _by_configuration(results, {"optim.learning_rate"} if chooses else set())
    rows = [[*_row(score, label, group), *([_shown(_learning_rate(group[0]))] if chooses else [])] for label, group in groups.items()]
    console.table(columns, rows, title)
    runs = [path.parent for path in sorted(root.glob(f"*/{RESULT}")) if not path.parent.name.endswith(OLDER)]
    every = [result for path in runs if (result := _result_of(path, console))]
    aggregate = [_aggregate(label, rows) for label, rows in _by_configuration(every).items()]
    write_json(root / SUMMARY, {"results": every, "aggregate": aggregate})
    figure = draw_curves(root, score, results, directories, title)
    console.say(f"summary: {root / SUMMARY}   learning curves: {figure}")
    if varies_in_size(results):
        console.say(f"score over parameters: {draw_sizes(root, score, results, title)}")


def _result_of(path: Path, console: Console) -> Result | None:
    """Return the result of a run; warn if it is damaged, so that the summary of the others is written."""
    try:
        return RunDirectory(path).result()
    except UsageError as error:
        console.warn(f"{error}; {SUMMARY} leaves it out")
        return None


def has_rates_to_choose(results: Sequence[Result]) -> bool:
    """Return whether there are several models, and some of them have several learning rates."""
    labels = labels_of(results, {"optim.learning_rate"})
    models = set(labels)
    return 1 < len(models) < len({*zip(labels, map(_learning_rate, results), strict=True)})


def with_best_learning_rates(results: Sequence[Result], score: str) -> list[int]:
    """Return the places of the results of each model with the learning rate that has the best mean score on the validation split.

    Raises:
      UsageError: it is unknown whether lower scores are better.
    """
    groups: dict[str, dict[float | None, list[int]]] = {}
    for place, label in enumerate(labels_of(results, {"optim.learning_rate"})):
        groups.setdefault(label, {}).setdefault(_learning_rate(results[place]), []).append(place)
    sign = 1 if is_lower_better(score) else -1

    def mean(places: Sequence[int]) -> float:
        found = sign * float(np.mean([results[place]["metrics"]["valid"][score] for place in places]))
        return found if np.isfinite(found) else np.inf

    return sorted(place for of_model in groups.values() for place in min(of_model.values(), key=mean))


def _learning_rate(result: Result) -> float | None:
    return result["config"]["optim"]["learning_rate"]


def _shown(learning_rate: float | None) -> str:
    return "of the recipe" if learning_rate is None else f"{learning_rate:g}"


def _kind(result: Result) -> str:
    """Return the name of a model without its size: 'LRD-GRU' of 'LRD-GRU 128/8'."""
    return result["model"].rpartition(" ")[0] or result["model"]


def varies_in_size(results: Sequence[Result]) -> bool:
    """Return whether some kind of model has several sizes."""
    sizes = {(_kind(result), result["parameters"]["true"]) for result in results}
    return len(sizes) > len({kind for kind, _ in sizes})


def draw_sizes(root: Path, score: str, results: Sequence[Result], title: str) -> Path:
    """Plot the test score of each model over its number of parameters as `root`/figures/score_over_parameters.png."""
    models = [Sized(_kind(r), r["model"].rpartition(" ")[2], r["parameters"]["true"], r["metrics"]["test"][score]) for r in results]
    return score_over_parameters(models, score, root / FIGURES / "score_over_parameters.png", title)


def draw_curves(root: Path, score: str, results: Sequence[Result], directories: Sequence[Path], title: str) -> Path:
    """Plot the scores of all evaluations of these runs as `root`/figures/learning_curves.png."""
    return learning_curves(_curves(score, results, directories), score, root / FIGURES / "learning_curves.png", title)


def _by_configuration(results: Sequence[Result], silent: Set[str] = frozenset()) -> dict[str, list[Result]]:
    """Group the results of all seeds by configuration, except its `silent` settings."""
    groups: dict[str, list[Result]] = {}
    for label, result in zip(labels_of(results, silent), results, strict=True):
        groups.setdefault(label, []).append(result)
    return groups


def labels_of(results: Sequence[Result], silent: Set[str] = frozenset()) -> list[str]:
    """Return a label for each result: the label of its model, and the settings that distinguish it from results with the same label.

    Settings that are `silent` do not distinguish results.
    """
    settings = [flatten(result["config"]) for result in results]
    namesakes: dict[str, list[int]] = {}
    for place, result in enumerate(results):
        namesakes.setdefault(result["model"], []).append(place)
    labels = [""] * len(results)
    for model, places in namesakes.items():
        has_presets = len({results[place]["preset"] for place in places}) > 1
        names = [name for name in _differences([settings[place] for place in places]) if name not in silent]
        shown = _short(names)
        for place in places:
            preset = f" ({results[place]['preset']})" if has_presets else ""
            marks = [f"{shown[name]} {settings[place].get(name)}" for name in names]
            labels[place] = " ".join([model + preset, ", ".join(marks)]).strip()
    return labels


def _short(names: Sequence[str]) -> dict[str, str]:
    """Return the last part of each name of a setting, or all of it if another one ends alike."""
    last = {name: name.rpartition(".")[2] for name in names}
    counts = Counter(last.values())
    return {name: end if counts[end] == 1 else name for name, end in last.items()}


def _differences(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the settings that differ, except those in `SILENT`. A setting that a configuration lacks counts as None."""
    names = dict.fromkeys(name for of_one in settings for name in of_one if name not in SILENT)
    return [name for name in names if len({str(of_one.get(name)) for of_one in settings}) > 1]


def _columns(score: str) -> list[str]:
    return ["model", "parameters", "paper's count", f"valid {score}", f"test {score}", "updates", "seconds"]


def _row(score: str, label: str, results: Sequence[Result]) -> list[str]:
    first = results[0]
    return [
        label,
        f"{first['parameters']['true']:,}",
        f"{first['parameters']['paper']:,}",
        spread([r["metrics"]["valid"][score] for r in results]),
        spread([r["metrics"]["test"][score] for r in results]),
        spread([r["updates"] for r in results], "{:,.0f}"),
        spread([r["seconds"] for r in results], "{:.1f}"),
    ]


def spread(values: Sequence[float], form: str = "{:.4g}") -> str:
    """Return '0.93' for one value or equal ones, or '0.930 ± 0.012', with two significant digits of the deviation."""
    mean, deviation = moments(values)
    if not deviation or not np.isfinite(deviation):
        return form.format(mean)
    decimals = max(0, 1 - int(np.floor(np.log10(deviation))))
    return f"{mean:,.{decimals}f} ± {deviation:,.{decimals}f}"


def mean_and_deviation(values: Sequence[float], form: str = "{:.3f}") -> list[str]:
    """Return mean and standard deviation (empty for a single value) as text."""
    return ["" if value is None else form.format(value) for value in moments(values)]


def moments(values: Sequence[float]) -> tuple[float, float | None]:
    """Return mean and standard deviation (n - 1; None for a single value). Equal values have no rounding errors."""
    if len(values) > 1 and min(values) == max(values):
        return float(values[0]), 0.0
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


def _aggregate(label: str, results: Sequence[Result]) -> Result:
    """Return mean and standard deviation of every metric over the seeds of a model."""
    splits = {
        split: {name: _moments([r["metrics"][split][name] for r in results]) for name in results[0]["metrics"][split]}
        for split in results[0]["metrics"]
    }
    return {
        "label": label,
        "model": results[0]["model"],
        "preset": results[0]["preset"],
        "seeds": [r["seed"] for r in results],
        "updates": _moments([r["updates"] for r in results]),
        "metrics": splits,
    }


def _moments(values: Sequence[float]) -> dict[str, float | None]:
    return dict(zip(("mean", "sd"), moments(values), strict=True))


def _curves(score: str, results: Sequence[Result], directories: Sequence[Path]) -> list[Curve]:
    curves = []
    for label, path in zip(labels_of(results), directories, strict=True):
        lines = [line for line in RunDirectory(path).metrics() if line["split"] == "valid"]
        curves.append(Curve(label, [line["update"] for line in lines], [line[score] for line in lines]))
    return curves
