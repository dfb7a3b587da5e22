"""The files of one run, and what may be read back from them after any kind of end."""

import errno
import fcntl
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from lrpt.errors import UsageError
from lrpt.runs.configuration import flatten
from lrpt.devices.parallel import describe_devices

MAY_CHANGE = {
    *("train.updates", "train.stop_below", "train.patience", "train.updates_per_call", "train.evaluation_batch"),
    *("train.checkpoint_minutes", "data.dir"),
}
"""What a resumed run may be given anew: nothing here decides the numbers of an update, but for their rounding."""

OF_A_RESULT = {"preset", "model", "seed", "updates", "stopped", "seconds", "parameters", "best_update", "metrics", "config"}


class InUse(UsageError):
    """Another command is at work in a run directory."""


class RunDirectory:
    """`config.json`, `environment.json`, `metrics.jsonl`, `result.json`, `checkpoints/` and `figures/` of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self._lock: int | None = None

    def check(self, identity: dict[str, Any]) -> None:
        """Raises a UsageError that names the first difference if the directory holds another run, of which there is more than its start.

        Args:
          identity: experiment, preset, seed, and the groups of the configuration, as JSON can hold them.
        """
        if not self._holds_work():
            self._read_json("config.json")
            return
        before = self._read_json("config.json") or self._identity_of_result()
        if before is None:
            raise UsageError(f"{self.path} holds a run without config.json: restore that file, or name another --workdir", code=1)
        self._check_same(before, identity)

    def _identity_of_result(self) -> dict[str, Any] | None:
        result = self.result()
        if result is None:
            return None
        return {**{name: result[name] for name in ("experiment", "preset", "seed") if name in result}, **result["config"]}

    def _holds_work(self) -> bool:
        return (self.path / "result.json").exists() or bool(self.metrics()) or any(self.checkpoints.glob("*"))

    def claim(self) -> None:
        """Keeps other commands out until `release`, or until this process ends in whatever way.

        Raises:
          UsageError: another command is at work here.
        """
        if self._lock is not None or not self.path.is_dir():
            return
        self._lock = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.release()
            raise InUse(f"another command is at work in {self.path}: wait for its end, or name another --workdir", code=1) from error
        except OSError:  # a file system without locks
            pass

    def release(self) -> None:
        """Lets other commands in."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def open(self, identity: dict[str, Any]) -> None:
        """Makes the directory, claims it, and writes `config.json` and `environment.json`.

        Raises:
          UsageError: it cannot be written, or another command is at work here.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.claim()
            write_json(self.path / "config.json", identity)
            write_json(self.path / "environment.json", environment())
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            advice = "free space there and repeat the command" if full else "make it writable, or name another directory with --workdir"
            raise UsageError(f"{self.path} cannot be written ({error.strerror}): {advice}", code=1) from error

    def _check_same(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        old, new = (flatten({k: v if isinstance(v, dict) else {"": v} for k, v in c.items() if k != "preset"}) for c in (before, now))
        for name in sorted(old.keys() | new.keys(), key=lambda name: (not name.endswith("."), name)):
            if old.get(name) != new.get(name) and name not in MAY_CHANGE:
                flag = name.rstrip(".")
                raise UsageError(
                    f"{self.path} holds a run with {flag} = {old.get(name)}, not {new.get(name)}: "
                    f"repeat its flags to resume it, or name another --workdir"
                )

    def metrics(self) -> list[dict[str, Any]]:
        """Every whole line of `metrics.jsonl`; what a crash has left half-written is no line."""
        path = self.path / "metrics.jsonl"
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        found = (_parsed(line) for line in lines)
        return [line for line in found if line is not None and isinstance(line.get("update"), int) and "split" in line]

    def keep_metrics_until(self, update: int) -> None:
        """Drops what was written after the checkpoint that training resumes from."""
        kept = [line for line in self.metrics() if line["update"] <= update]
        write_text(self.path / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in kept))

    def append_metrics(self, lines: list[dict[str, Any]]) -> None:
        """Adds one line for each object, and waits until they are on disk: a checkpoint must not outlive the figures before it."""
        path = self.path / "metrics.jsonl"
        with _naming(path), path.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())

    def result(self) -> dict[str, Any] | None:
        """The result of a finished run.

        Raises:
          UsageError: the file is no result.
        """
        found = self._read_json("result.json")
        if found is not None and not _is_result(found):
            raise self._unreadable("result.json")
        return found

    def write_result(self, result: dict[str, Any]) -> None:
        """Marks the run as finished."""
        write_json(self.path / "result.json", result)

    def _read_json(self, name: str) -> dict[str, Any] | None:
        path = self.path / name
        if not path.exists():
            return None
        found = _parsed(path.read_text(errors="replace"))
        if found is None:
            raise self._unreadable(name)
        return found

    def _unreadable(self, name: str) -> UsageError:
        advice = "restore it" if name == "config.json" else "remove it"
        return UsageError(f"{self.path / name} is damaged, or no JSON of this library: {advice}, or name another --workdir", code=1)


def _parsed(text: str) -> dict[str, Any] | None:
    """A JSON object, or None where the text is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _is_result(found: dict[str, Any]) -> bool:
    """Whether it has what is read of it here and in tables."""
    if not (found.keys() >= OF_A_RESULT and isinstance(found["config"], dict) and isinstance(found["metrics"], dict)):
        return False
    valid, test = (found["metrics"].get(split) for split in ("valid", "test"))
    return isinstance(valid, dict) and isinstance(test, dict) and isinstance(valid.get("loss"), int | float)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """An error of writing without the name of a file, as of a full disk, gets it."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_text(path: Path, text: str) -> None:
    """Writes a file so that a reader, or a crash, sees the old one or the new one and nothing between."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with _naming(path):
            temporary.write_text(text)
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """`write_text` of readable JSON."""
    write_text(path, json.dumps(content, indent=2) + "\n")


def environment() -> dict[str, Any]:
    """Versions, hardware and commit: what one needs to explain a number later."""
    packages = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "tensorflow-datasets", "lrpt")
    return {
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        **describe_devices(),
        "command": " ".join(["python", *sys.orig_argv[1:]]),
        **_commit(),
    }


def version(package: str) -> str | None:
    """Of an installed package; None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> dict[str, Any]:
    """The commit of the code that runs and whether its tree has changes; nulls outside a checkout."""

    def git(*arguments: str) -> str | None:
        try:
            run = subprocess.run(["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.SubprocessError):
            return None
        return run.stdout.strip() if run.returncode == 0 else None

    commit, changes = git("rev-parse", "HEAD"), git("status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "dirty": None if changes is None else bool(changes)}
