"""Files of one run, bound to each other so that damage is noticed.

`config.json` holds the identifier of the run. Checkpoints and `result.json` repeat it. A checkpoint holds the lines of `metrics.jsonl`
before it. `result.json` has their number and SHA-256, and a SHA-256 of itself. So a reader notices a file of another run, or an altered
or shortened one, and a resumed run gets its metrics back.
"""

import errno
import hashlib
import math
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from filelock import FileLock, Timeout

from lrpt.errors import UsageError, line_of, obstacle_of
from lrpt.files import read_text
from lrpt.runs import weights
from lrpt.runs.environment import USER_CODE, environment
from lrpt.runs.files import DIGEST, is_intact, json_line, naming, parsed_object, sealed, unwritable, write_json, write_text
from lrpt.runs.layout import CHECKPOINTS, CONFIG, ENVIRONMENT, FAILURE, METRICS, RESULT, RUN, TASK
from lrpt.runs.same_run import START, differences, flaw_of
from lrpt.runs.user_code import IMPORTS, with_digests

REQUIRED = {
    *("preset", "model", "seed", "updates", "stopped", "seconds", "parameters", "best_update", "metrics", "config"),
    *(RUN, "metrics_record"),
}
"""Fields of `result.json` without which it is no result."""


class InUse(UsageError):
    """An error: another command uses the run directory."""


def check_place(root: Path) -> None:
    """Check that directories can be made below `root`. Nothing is left there.

    Raises:
      UsageError: the nearest directory that exists is a file, or may not be written.
    """
    _, reason = unwritable(root)
    if reason:
        raise _not_writable(root, reason)


def _not_writable(path: Path, reason: str | None, *, full: bool = False) -> UsageError:
    advice = "free space there and repeat the command" if full else "make it writable, or name another directory with --workdir"
    return UsageError(f"{path} cannot be written ({reason}): {advice}", code=1)


class RunDirectory:
    """`config.json`, `environment.json`, `task.json`, `metrics.jsonl`, `result.json`, `checkpoints/` and `figures/` of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / CHECKPOINTS
        self._lock: FileLock | None = None
        self._is_new = False

    # The lock

    def lock(self) -> None:
        """Lock the directory until `release`, or until this process ends in any way.

        A directory that does not exist yet, or whose file system has no locks, is not locked.

        Raises:
          InUse: another command holds the lock.
        """
        self._is_new = not self.path.is_dir()
        if self._lock is not None or self._is_new:
            return
        lock = FileLock(self.path / ".lock", timeout=0, thread_local=False)
        try:
            lock.acquire()
        except Timeout as error:
            raise InUse(f"another command is at work in {self.path}: wait for its end, or name another --workdir", code=1) from error
        except (OSError, NotImplementedError):  # a file system without locks, or a read-only one
            return
        self._lock = lock

    def is_in_use(self) -> bool:
        """Return whether another command holds the lock."""
        try:
            self.lock()
        except InUse:
            return True
        self.release()
        return False

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # Identity of the run

    def check(self, identity: dict[str, Any], usual: Mapping[str, Any] | None = None) -> None:
        """Check that the directory can hold this run: it is empty, has only been opened, or holds the same run.

        Args:
          identity: experiment, preset, seed, and the groups of the configuration, as JSON values.
          usual: defaults by flat name, for settings that did not exist when the run was recorded.

        Raises:
          UsageError: the directory holds another run (the differences are named), a network that was saved without one, or files that
            are damaged or do not belong together.
        """
        before = self._read_json(CONFIG)
        if not self._holds_work():
            self._refuse_saved_network()
            return
        if before is None:
            raise UsageError(f"{self.path} holds a run without config.json: restore that file, or name another --workdir", code=1)
        result = self.result()
        self._check_config(before, identity, usual or {})
        if result is not None:
            self._check_same(_identity_of(result), identity, usual or {})

    def _refuse_saved_network(self) -> None:
        """Raise a UsageError if the directory holds weights without a run, which a run would separate from their `config.json`."""
        if weights.are_kept(self.path):
            raise UsageError(f"{self.path} holds a network that was saved without a run: name another --workdir")

    def _holds_work(self) -> bool:
        return (self.path / RESULT).exists() or bool(self.metrics()) or any(self.checkpoints.glob("[0-9]*"))

    def _check_config(self, before: dict[str, Any], now: dict[str, Any], usual: Mapping[str, Any]) -> None:
        """Raise the error of `_check_same`. No flags can repeat what a damaged file says, so that is named instead."""
        try:
            self._check_same(before, now, usual)
        except UsageError:
            if flaw := flaw_of(before, now):
                raise UsageError(f"{self.path / CONFIG} is damaged ({flaw}): restore it, or name another --workdir", code=1) from None
            raise

    def _check_same(self, before: dict[str, Any], now: dict[str, Any], usual: Mapping[str, Any]) -> None:
        if found := differences(before, now, usual):
            (name, old, new), *others = found
            raise UsageError(
                f"{self.path} holds a run with {name} = {old}, not {new}{_further([other for other, *_ in others])}: repeat its flags to "
                f"resume it, or name another --workdir, such as {self._named_for(name, new)}"
            )

    def _named_for(self, setting: str, value: Any) -> Path:
        """Return a path beside this directory that says which setting differs."""
        text = "".join(c for c in f"{setting.rpartition('.')[2]}-{value}" if c.isalnum() or c in "-_.")
        return self.path.with_name(f"{self.path.name}-{text}")

    def identifier(self) -> str:
        """Return the identifier of the run, or '' if there is none yet."""
        return str((self._read_json(CONFIG) or {}).get(RUN, ""))

    def start_digest(self) -> str | None:
        """Return the SHA-256 of the arrays that the run started from; None if there is no run yet, or none was recorded."""
        return (self._read_json(CONFIG) or {}).get(START) if self._holds_work() else None

    def user_code(self) -> dict[str, list[str]]:
        """Return the SHA-256 of the files of the user's modules with which the run was trained, as `environment.json` has them."""
        return _user_code_of(self._environment()) if self._holds_work() else {}

    def record_user_code(self, digests: Mapping[str, str]) -> None:
        """Add the files of the user's modules with which the checkpoint was trained that has just been written."""
        if not digests:
            return
        recorded = self._environment()
        before = _user_code_of(recorded)
        now = with_digests(before, digests)
        if now != before:
            write_json(self.path / ENVIRONMENT, {**recorded, USER_CODE: now})

    def _environment(self) -> dict[str, Any]:
        return parsed_object(self._text(ENVIRONMENT) or "") or {}

    def open(self, identity: dict[str, Any], start: str | None = None, user_code: Mapping[str, str] | None = None) -> None:
        """Make the directory, lock it, and write `config.json` and `environment.json`.

        Args:
          identity: as in `check`.
          start: SHA-256 of the arrays that the run started from, if it has a start file.
          user_code: SHA-256 of the files of the user's modules that it depends on. Of a run that goes on, they are recorded with its next
            checkpoint, see `record_user_code`.

        Raises:
          UsageError: the directory cannot be written, or another command holds its lock.
          InUse: another command has begun a run in a directory that did not exist when this command looked.
        """
        was_new = self._is_new
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if self.checkpoints.exists() and not self.checkpoints.is_dir():  # else the first checkpoint fails, after minutes of training
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.checkpoints))
            self.lock()
            if was_new and self._holds_work():
                raise InUse(f"another command has just begun a run in {self.path}: repeat this command, or name another --workdir", code=1)
            more: dict[str, Any] = {START: start} if start else {}
            if imports := self._imports(identity):
                more[IMPORTS] = imports
            write_json(self.path / CONFIG, {**identity, **more, RUN: self.identifier() or uuid.uuid4().hex})
            write_json(self.path / ENVIRONMENT, environment(self.user_code() or with_digests({}, user_code or {})))
        except OSError as error:
            if self.path.is_dir() and obstacle_of(error):
                raise UsageError(line_of(error), code=1) from error
            raise _not_writable(self.path, error.strerror, full=error.errno in (errno.ENOSPC, errno.EDQUOT)) from error

    def _imports(self, identity: Mapping[str, Any]) -> list[str]:
        """Return the modules to import of a run, also those that an earlier command has recorded."""
        before = (self._read_json(CONFIG) or {}).get(IMPORTS) if self._holds_work() else None
        return list(dict.fromkeys([*(before if isinstance(before, list) else []), *identity.get(IMPORTS, [])]))

    # What the network has to know of its task

    def write_task(self, description: Mapping[str, Any]) -> None:
        """Write the description of the task to `task.json`, with which the network can be used without data."""
        write_json(self.path / TASK, sealed({**description, RUN: self.identifier()}))

    def task(self) -> dict[str, Any] | None:
        """Return the description of the task, or None if there is none, or one that is damaged or of another run."""
        try:
            found = parsed_object(self._text(TASK) or "") or {}
        except OSError:  # such as a directory of this name
            return None
        return found if found.get(RUN) == self.identifier() and is_intact(found) else None

    # Metrics

    def metrics(self) -> list[dict[str, Any]]:
        """Return every complete line of `metrics.jsonl`, with NaN for null. A line that a crash left half-written is skipped."""
        return [with_nan(line) for _, line in self._lines()]

    def append_metrics(self, lines: list[dict[str, Any]]) -> None:
        """Add one line for each object and wait until they are on disk: a checkpoint must not outlive the metrics before it.

        A failure that training has passed is forgotten.
        """
        path = self.path / METRICS
        failure = self.failure()
        if failure is not None and lines and lines[-1]["update"] >= failure["update"]:
            (self.path / FAILURE).unlink()
        with naming(path), path.open("a", encoding="utf-8", newline="\n") as file:
            file.writelines(map(json_line, lines))
            file.flush()
            os.fsync(file.fileno())

    def metrics_text(self) -> str:
        """Return the complete lines of `metrics.jsonl` as text, for a checkpoint."""
        return "".join(text for text, _ in self._lines())

    def keep_metrics(self, saved: str) -> bool:
        """Drop the lines after a checkpoint, and restore the lines before it. A result that has more lines is removed.

        Args:
          saved: the `metrics_text` at the checkpoint; '' without a checkpoint.

        Returns:
          Whether the lines before the checkpoint had been altered.
        """
        found = self._text(METRICS)
        if saved != found:
            write_text(self.path / METRICS, saved)
            self._drop_result_beyond(saved.count("\n"))
        return not (found or "").startswith(saved)

    def _drop_result_beyond(self, lines: int) -> None:
        """Remove a result whose metrics will be written again."""
        result = parsed_object(self._text(RESULT) or "") or {}
        if isinstance(record := result.get("metrics_record"), dict) and record.get("lines", 0) > lines:
            (self.path / RESULT).unlink()

    def _lines(self) -> list[tuple[str, dict[str, Any]]]:
        text = self._text(METRICS) or ""
        found = ((f"{line}\n", parsed_object(line)) for line in text.split("\n"))
        return [(line, content) for line, content in found if content and isinstance(content.get("update"), int) and "split" in content]

    def _refuse_metrics(self) -> NoReturn:
        raise UsageError(
            f"{self.path / METRICS} is not what this run wrote: it was altered, shortened or taken from another run; restore it, "
            f"or remove result.json and repeat the command of the run: its last checkpoint has the metrics",
            code=1,
        )

    # The result

    def result(self) -> dict[str, Any] | None:
        """Return the result of a finished run, with NaN for metrics that are null, or None if there is none.

        Raises:
          UsageError: the file is damaged, altered or of another run, or `metrics.jsonl` has changed since the run finished.
        """
        found = self._read_json(RESULT)
        if found is None:
            return None
        if not _is_result(found):
            raise self._unreadable(RESULT)
        name = self.path / RESULT
        if not is_intact(found):
            what = f"{name} was altered: its content does not match its {DIGEST}"
            raise UsageError(f"{what}; restore it, or remove it to train again", code=1)
        if found[RUN] != self.identifier():
            raise UsageError(f"{name} belongs to another run: restore the result of this one, or remove it to train again", code=1)
        if not matches_record([text for text, _ in self._lines()], found["metrics_record"]):
            self._refuse_metrics()
        return _with_nan_metrics(found)

    def write_result(self, result: dict[str, Any]) -> dict[str, Any]:
        """Mark the run as finished. Return what `result` reads."""
        content = sealed({**result, RUN: self.identifier(), "metrics_record": record_of([text for text, _ in self._lines()])})
        write_json(self.path / RESULT, content)
        return _with_nan_metrics(content)

    def write_failure(self, update: int, what: str) -> None:
        """Record that training diverged, so that a report can count the seed."""
        write_json(self.path / FAILURE, {"update": update, "what": what})

    def failure(self) -> dict[str, Any] | None:
        """Return what `write_failure` recorded, or None."""
        return self._read_json(FAILURE)

    def divergence(self) -> dict[str, Any] | None:
        """Return what `write_failure` recorded of a run that has no result, or None."""
        return self.failure() if self.result() is None else None

    # Reading

    def _text(self, name: str) -> str | None:
        path = self.path / name
        return read_text(path, errors="replace") if path.exists() else None

    def _read_json(self, name: str) -> dict[str, Any] | None:
        text = self._text(name)
        if text is None:
            return None
        found = parsed_object(text)
        if found is None:
            raise self._unreadable(name)
        return found

    def _unreadable(self, name: str) -> UsageError:
        advice = "restore it" if name == CONFIG else "remove it"
        return UsageError(f"{self.path / name} is damaged, or no JSON of this library: {advice}, or name another --workdir", code=1)


def _further(names: Sequence[str]) -> str:
    """Return an addition to the line of an error that names settings; '' if there are none."""
    if not names:
        return ""
    return f" (and {len(names)} more: {', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"


def record_of(lines: Sequence[str]) -> dict[str, Any]:
    """Return the number and the digest of lines of `metrics.jsonl`, each with its end, as a result holds them in `metrics_record`."""
    return {"lines": len(lines), "sha256": hashlib.sha256("".join(lines).encode(errors="replace")).hexdigest()}


def matches_record(lines: Sequence[str], record: Mapping[str, Any]) -> bool:
    """Return whether lines of `metrics.jsonl` begin with those that a result has recorded."""
    return record_of(lines[: record["lines"]]) == record


def with_nan(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return metrics with NaN for null, which JSON holds for a number that is not finite, such as the perplexity of a huge loss."""
    return {name: math.nan if value is None else value for name, value in metrics.items()}


def _user_code_of(recorded: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the digests in the content of `environment.json`, without what is none."""
    found = recorded.get(USER_CODE)
    entries = found.items() if isinstance(found, dict) else ()
    return {name: files for name, files in entries if isinstance(files, list) and all(isinstance(one, str) for one in files)}


def _with_nan_metrics(result: dict[str, Any]) -> dict[str, Any]:
    return {**result, "metrics": {split: with_nan(metrics) for split, metrics in result["metrics"].items()}}


def _identity_of(result: dict[str, Any]) -> dict[str, Any]:
    """Return the content of `config.json` for the run of a result."""
    return {**{name: result[name] for name in ("experiment", "preset", "seed") if name in result}, **result["config"]}


def _is_result(found: dict[str, Any]) -> bool:
    """Return whether all required fields of the result are present."""
    if not (found.keys() >= REQUIRED and isinstance(found["config"], dict) and isinstance(found["metrics"], dict)):
        return False
    valid, test = (found["metrics"].get(split) for split in ("valid", "test"))
    return isinstance(valid, dict) and isinstance(test, dict) and isinstance(valid.get("loss"), int | float)
