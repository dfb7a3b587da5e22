"""Studies of many runs: which of them are finished, and what stands at the head of the file that sums them up."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lrpt.runs.run_directory import RunDirectory
from lrpt.training.loop import Job


def with_results(jobs: Sequence[Job]) -> list[tuple[Job, dict[str, Any]]]:
    """Those that have a result, with it."""
    found = ((job, RunDirectory(job.path).result()) for job in jobs)
    return [(job, result) for job, result in found if result is not None]


def origin(options: Any, job: Job) -> dict[str, Any]:
    """'options', a dataclass, and 'environment', that of one of the runs."""
    asked = json.loads(json.dumps(asdict(options), default=str))
    return {"options": asked, "environment": json.loads((job.path / "environment.json").read_text())}
