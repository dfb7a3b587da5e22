"""Summaries of studies, whose many runs are kept in one JSON object and not in run directories."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.fair_crossing.options import Options as CrossingOptions
from experiments.lattice.models import TEXTS
from experiments.report.kept.records import anonymous, damaged
from lrpt.cli.studies import DIVERGED
from lrpt.errors import UsageError
from lrpt.files import read_json
from lrpt.runs.configuration import flatten, to_json
from lrpt.runs.console import Console
from lrpt.runs.files import write_json

Summary = Mapping[str, Any]


SIZES = {300_000: "", 1_000_000: "_1m"}
"""Parameters of the networks of a study of convergence -> end of its name."""


def _of_lattice(summary: Summary) -> str:
    """Return the name of a study of `experiments.lattice`, from the text that it read. A file is known by its name."""
    data = summary["options"]["data"]
    read = data["source"], data["file"] and Path(data["file"]).name
    own = [name for name, text in TEXTS.items() if read[0] == text.source and (text.file is None or read[1] == text.file.name)]
    size = SIZES[summary["options"].get("parameters", 300_000)] if summary["study"] == "convergence" else ""
    return f"lattice_{summary['study']}_{own[0]}{size}"


def crossing_name(equal: str) -> str:
    """Return the name under which a comparison of `experiments.fair_crossing` is kept, from what is equal in it."""
    return f"fair_crossing_{equal}"


CROSSING = "fair_crossing.json"

STUDIES: Mapping[str, Callable[[Summary], str]] = {
    CROSSING: lambda summary: {equal: crossing_name(equal) for equal in ("parameters", "time")}[summary["options"]["equal"]],
    "swarm.json": lambda summary: {"jsb": "jsb_swarm"}[summary["options"]["data"]["source"]],
    **dict.fromkeys(("convergence.json", "efficiency.json", "gradients.json"), _of_lattice),
}
"""Summary in the work directory of a study -> name under which it is kept."""

ROWS = "runs", "dots"
"""Fields of which a summary has one."""

MAY_CHANGE = {"data.dir", "devices", "workdir", "preset", "huge", "seeds", "settings"}
"""Options in which two summaries of one study may differ: they change no number, or only how many runs there are."""


def load_summary(path: Path) -> dict[str, Any] | None:
    """Return a summary that is kept; None if there is none.

    Raises:
      UsageError: the file is damaged, or contains a path of a machine.
    """
    if not path.exists():
        return None
    content = _read(path)
    if anonymous(content) != content:
        raise UsageError(f"{path} names a path of some machine: collect the study with --collect", code=1)
    return content


def plan_of(sources: Sequence[Path], results: Path) -> list[tuple[Path, Path, dict[str, Any]]]:
    """Return for each summary its path, the path of the kept copy, and its content without paths of this machine.

    Raises:
      UsageError: a summary is damaged, the text that the study read is in no paper, or its options are not those of the kept summary or of
        the published comparison.
    """
    plan: dict[Path, Summary] = {}
    found = []
    for source in sources:
        content = _read(source)
        target = results / f"{_name_of(source, content)}.json"
        content = anonymous(content)
        before = plan.get(target) or load_summary(target)
        if before is not None and (name := _difference(before["options"], content["options"])):
            raise UsageError(f"{source} and {target} differ in {name}: remove the one that is not to be kept", code=1)
        plan[target] = content
        found.append((source, target, content))
    return found


def kept_rows(file: str, described: Summary, results: Path) -> Sequence[Mapping[str, Any]]:
    """Return the runs that are kept of a study with given options, also those whose training diverged.

    There are none if the kept study has other options, or if none is kept.

    Args:
      file: name of the summary in the work directory.
      described: the first entries of the summary and the options.
      results: folder of kept summaries.

    Raises:
      UsageError: the kept summary is damaged.
    """
    try:
        kept = load_summary(results / f"{STUDIES[file](described)}.json")
    except LookupError:
        return ()
    if kept is None or _difference(kept["options"], anonymous(described)["options"]):
        return ()
    return [run for run in (*_rows_of(kept), *kept.get(DIVERGED, ())) if isinstance(run, dict)]


def _name_of(source: Path, content: Summary) -> str:
    try:
        name = STUDIES[source.name](content)
    except (LookupError, TypeError):
        raise UsageError(f"{source} is no study that the report shows: only the texts of the papers are kept", code=1) from None
    if source.name == CROSSING and (differs := _difference(_published(content["options"]["equal"]), content["options"])):
        raise UsageError(f"{source} is no study that the report shows: {differs} is not that of the published comparison", code=1)
    return name


def _published(equal: str) -> dict[str, Any]:
    """Return the options of the comparison that the report shows."""
    usual = CrossingOptions()
    return to_json(replace(usual, equal=equal, data=replace(usual.data, source="ptb")))


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the name of the first option that makes two summaries different studies; empty if there is none.

    An option that one of them lacks did not exist when it was written. One of two lists may have more models, tasks or shares.
    """
    old, new = flatten(before), flatten(now)
    names = sorted((old.keys() & new.keys()) - MAY_CHANGE)
    return next((name for name in names if not _agree(name, old[name], new[name])), "")


def _agree(name: str, old: object, new: object) -> bool:
    if name == "data.file":  # the name of a file that a study may read is part of the name of the study
        return (old is None) == (new is None)
    if name == "models":  # each has runs of its own
        return True
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        return set(old) <= set(new) or set(new) <= set(old)
    return old == new


def keep(source: Path, target: Path, content: dict[str, Any], console: Console) -> None:
    """Write a summary, with runs of an earlier one that it lacks, unless the earlier one has more runs."""
    before = load_summary(target)
    content = content if before is None else _joined(before, content)
    if before is not None and _size(before) > _size(content):
        console.warn(f"{target} has more runs ({_size(before)}) than {source} ({_size(content)}): kept")
        return
    write_json(target, content)
    console.say(f"{target}: {_size(content)} runs")


IDENTITY = "model", "initialization", "share", "seed"
"""Fields that tell the runs of a study of `experiments.lattice` apart."""

OF_SEVERAL = "models", "initialization", "shares"
"""Options that list what a study of `experiments.lattice` has runs of."""


def _joined(before: Summary, now: dict[str, Any]) -> dict[str, Any]:
    """Return a summary of the same study with the runs of an earlier one that it lacks, if both have some that the other lacks."""
    old, new = ({_identity(run): run for run in summary.get("runs", ()) if isinstance(run, dict)} for summary in (before, now))
    if not old.keys() - new.keys() or not new.keys() - old.keys() or None in {*old, *new}:
        return now
    one, other = before["options"], now["options"]
    lists = {name: [*dict.fromkeys([*one[name], *other[name]])] for name in OF_SEVERAL if name in one.keys() & other.keys()}
    seeds = max(options.get("seeds", 1) for options in (one, other))
    kept = {name: value for name, value in now.items() if name != "rankings"}  # of one part, and the report has its own
    runs = list((old | new).values())
    return {**kept, "options": {**other, **lists, "seeds": seeds}, "runs": runs, DIVERGED: _diverged(before, now, runs)}


def _diverged(before: Summary, now: Summary, runs: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the runs of two summaries that diverged and have not been trained again since, each once."""
    old, new = (summary.get(DIVERGED, []) for summary in (before, now))
    own = [
        (one, {name: value for name, value in one.items() if name != "update"}) for one in [*old, *(one for one in new if one not in old)]
    ]
    return [one for one, identity in own if not any(identity.items() <= run.items() for run in runs)]


def _identity(run: Mapping[str, Any]) -> tuple[Any, ...] | None:
    return tuple(run[name] for name in IDENTITY) if run.keys() >= set(IDENTITY) else None


def _size(summary: Summary) -> int:
    return len(_rows_of(summary))


def _rows_of(summary: Summary) -> Any:
    """Return the runs of a summary, whatever they are called; None if it has none."""
    return next((summary[name] for name in ROWS if name in summary), None)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path)
    except ValueError:
        raise damaged(path, "it is not JSON") from None
    if not isinstance(content, dict) or not isinstance(content.get("options"), dict):
        raise damaged(path, "it has no options")
    rows = _rows_of(content)
    if not rows or not isinstance(rows, list | dict):
        raise damaged(path, "it has no runs")
    return content
