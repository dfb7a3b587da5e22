"""Summaries of studies, whose many runs are kept in one JSON object and not in run directories."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from experiments.lattice.models import TEXTS
from experiments.report.records import anonymous
from lrpt.errors import UsageError
from lrpt.runs.console import Console
from lrpt.runs.files import write_json

Summary = Mapping[str, Any]


def _of_lattice(summary: Summary) -> str:
    """Return the name of a study of `experiments.lattice`, from the text that it read. A file is known by its name."""
    data = summary["options"]["data"]
    read = data["source"], data["file"] and Path(data["file"]).name
    own = [name for name, text in TEXTS.items() if read[0] == text.source and (text.file is None or read[1] == text.file.name)]
    return f"lattice_{summary['study']}_{own[0]}"


STUDIES: Mapping[str, Callable[[Summary], str]] = {
    "fair_crossing.json": lambda summary: {kind: f"fair_crossing_{kind}" for kind in ("parameters", "time")}[summary["options"]["equal"]],
    "swarm.json": lambda summary: {"jsb": "jsb_swarm"}[summary["options"]["data"]["source"]],
    **dict.fromkeys(("convergence.json", "efficiency.json", "gradients.json"), _of_lattice),
}
"""Summary in the work directory of a study -> name under which it is kept."""

ROWS = "runs", "dots", "norms"
"""Fields of which a summary has one: the last one in old files only."""


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


def plan_of(source: Path, results: Path) -> tuple[Path, dict[str, Any]]:
    """Return where a summary is kept, and its content without paths of this machine.

    Raises:
      UsageError: it is damaged, or the text that the study read is in no paper.
    """
    content = _read(source)
    try:
        name = STUDIES[source.name](content)
    except (LookupError, TypeError):
        raise UsageError(f"{source} is no study that the report shows: only the texts of the papers are kept", code=1) from None
    return results / f"{name}.json", anonymous(content)


def keep(source: Path, target: Path, content: dict[str, Any], console: Console) -> None:
    """Write a summary, unless an earlier one has more runs."""
    before = load_summary(target)
    if before is not None and _size(before) > _size(content):
        console.warn(f"{target} has more runs ({_size(before)}) than {source} ({_size(content)}): kept")
        return
    write_json(target, content)
    console.say(f"{target}: {_size(content)} runs")


def _size(summary: Summary) -> int:
    return len(next(summary[name] for name in ROWS if name in summary))


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except ValueError:
        raise _damaged(path, "it is not JSON") from None
    if not isinstance(content, dict) or not isinstance(content.get("options"), dict):
        raise _damaged(path, "it has no options")
    rows = next((content[name] for name in ROWS if name in content), None)
    if not rows or not isinstance(rows, list | dict):
        raise _damaged(path, "it has no runs")
    return content


def _damaged(path: Path, what: str) -> UsageError:
    return UsageError(f"{path} is damaged ({what}): restore it, or remove it", code=1)
