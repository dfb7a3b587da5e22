"""Real processes that are killed or told to stop; then the same command.

All jobs go to one driver program, as the start of a program is what takes time here.
"""

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from tiny import EVEN, EXPERIMENT, command, driven, numbers

from lrpt.cli.command import main


class End(NamedTuple):
    """How the first process of a run ends, and what it leaves."""

    how: str
    at: int
    status: int
    evaluated: int | None
    says: str = ""


ENDS = [
    End("kill_in_training", 4, -9, 4),
    End("kill_in_metrics", 2, -9, 4),
    End("kill_between_metrics_and_checkpoint", 2, -9, 8),
    End("kill_in_checkpoint", 1, -9, 4),
    End("kill_before_the_seal", 2, -9, 8),
    End("kill_before_the_result", 1, -9, 12),
    End("terminate", 3, 143, 4, "stopped by SIGTERM at update 6; the same command resumes there"),
    End("interrupt", 2, 130, 4, "stopped by SIGINT at update 4; the same command resumes there"),
    End("interrupt_twice", 4, 130, 4, "stopped by Ctrl-C: what was written before is intact, and the same command resumes from it"),
    End("interrupt_before_training", 1, 130, None, "stopped by Ctrl-C: what was written before is intact"),
]


class Job(NamedTuple):
    """One process: its directory, and what ends it, if anything."""

    directory: str
    end: End | None


class Ended(NamedTuple):
    path: Path
    status: int
    stderr: str


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """What is left of each process: those of the table, one that nothing ended, and a killed one with its successor."""
    root = tmp_path_factory.mktemp("killed")
    jobs = {end.how: Job(end.how, end) for end in ENDS}
    jobs |= {"whole": Job("whole", None), "first": Job("both", ENDS[0]), "second": Job("both", None)}
    done = drive(root, list(jobs.values()))
    return dict(zip(jobs, done, strict=True))


def drive(root, jobs):
    """Runs a command for each job, one after the other."""
    described = [
        {"argv": command(root / job.directory, EVEN), "end": job.end and job.end.how, "at": job.end and job.end.at} for job in jobs
    ]
    statuses = driven(root, described)
    logs = [(root / f"{i}.log").read_text() for i in range(len(jobs))]
    return [Ended(root / job.directory, *rest) for job, *rest in zip(jobs, statuses, logs, strict=True)]


def last_evaluation(path):
    """The update of the last whole pair of lines; None where nothing was written."""
    if not path.exists():
        return None
    whole = (path / "metrics.jsonl").read_text().rpartition("\n")[0].splitlines()
    return max((line["update"] for line in map(json.loads, whole) if line["split"] == "valid"), default=0)


every_end = pytest.mark.parametrize("end", ENDS, ids=[end.how for end in ENDS])


@pytest.mark.slow
@every_end
def test_how_it_ended(processes, end):
    left = processes[end.how]
    assert left.status == end.status, left.stderr
    assert last_evaluation(left.path) == end.evaluated, "it was to end at another place"
    assert not (left.path / "result.json").exists()
    if end.says:
        (line,) = left.stderr.splitlines()
        assert line.startswith(f"lrpt: error: {end.says}")
    else:
        assert left.stderr == ""


@pytest.mark.slow
@every_end
def test_the_same_command_ends_with_the_numbers_of_an_uninterrupted_run(processes, end, tmp_path, capsys):
    path = tmp_path / "run"
    if processes[end.how].path.exists():
        shutil.copytree(processes[end.how].path, path)
    main(EXPERIMENT, command(path, EVEN))
    assert numbers(path, EVEN) == numbers(processes["whole"].path, EVEN)
    assert capsys.readouterr().err == ""  # a checkpoint that was not finished is no checkpoint, and needs no word
    assert {entry.name for entry in (path / "checkpoints").iterdir()} <= {"4", "8", "12"}


@pytest.mark.slow
def test_a_process_of_its_own_goes_on_too(processes):
    whole, first, second = (processes[name] for name in ("whole", "first", "second"))
    assert [process.status for process in (whole, first, second)] == [0, -9, 0]
    assert "".join(process.stderr for process in (whole, first, second)) == ""
    assert numbers(second.path, EVEN) == numbers(whole.path, EVEN)
