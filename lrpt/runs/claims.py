"""Who trains which of many runs: files that several workers, on several machines, share without a server and without a clock in common.

A claim is the file NAME.N.json in one directory; the one with the highest N counts. It is made by creating a file that must not exist yet,
which succeeds for one worker only, on network file systems too. Its owner writes another count of beats into it from time to time. Who
sees the same count for long enough by a clock of his own, which no change of the date moves, may make NAME.N+1.json. No claim is ever
removed, so nobody can remove another's, and an owner who was only asleep finds that he has lost.
"""

import json
import os
import platform
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from lrpt.runs.run_directory import write_json

HELD, RELEASED, FAILED = "held", "released", "failed"


class Claim(NamedTuple):
    """One worker's right to train a run.

    Attributes:
      name: of the run.
      number: N; how often it was claimed before.
      tries: how many workers in a row have lost it without getting any further, this one included.
    """

    name: str
    number: int
    tries: int


class Claims:
    """The claims of one worker, and its view of those of others.

    Args:
      folder: where they are; made when it is needed.
      stale: seconds without a beat after which a claim is taken over.
      clock: never goes backwards; `time.monotonic`, but for tests.
    """

    def __init__(self, folder: Path, stale: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder, self.stale, self.clock = folder, stale, clock
        self.owner = f"{platform.node()} {os.getpid()} {uuid.uuid4().hex[:8]}"
        self._beats = 0
        self._seen: dict[str, tuple[Any, float]] = {}

    def take(self, name: str, progress: int = 0) -> Claim | None:
        """Claims a run, or None where another worker holds it, or was faster, or where it has failed.

        Args:
          progress: how far the run is: what is lost without getting further is counted in `Claim.tries`.
        """
        number, content = self._newest(name)
        if content is not None and not self._is_free(name, number, content):
            return None
        lost = content is not None and content.get("state") != RELEASED and content.get("progress") == progress
        claim = Claim(name, number + 1, content.get("tries", 1) + 1 if content is not None and lost else 1)
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            os.close(os.open(self._path(name, claim.number), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return None
        self._write(claim, HELD, progress=progress)
        return claim

    def beat(self, claim: Claim) -> bool:
        """Says that its owner lives. False where another has taken the claim over: then the run must be left at once."""
        number, content = self._newest(claim.name)
        if number != claim.number:
            return False
        self._beats += 1
        self._write(claim, HELD, progress=(content or {}).get("progress", 0))
        return True

    def release(self, claim: Claim) -> None:
        """Leaves a run to whoever comes next."""
        self._write(claim, RELEASED)

    def fail(self, claim: Claim, reason: str) -> None:
        """Marks a run as one that nobody should train again."""
        self._write(claim, FAILED, reason=reason)

    def failure(self, name: str) -> str | None:
        """Why a run has failed, or None where it has not."""
        _, content = self._newest(name)
        return content.get("reason", "") if content is not None and content.get("state") == FAILED else None

    def forget_failures(self) -> None:
        """Lets the runs that have failed be tried again."""
        for name in sorted({path.name.rsplit(".", 2)[0] for path in self.folder.glob("*.json")}):
            if self.failure(name) is not None:
                self._write(Claim(name, self._newest(name)[0], 0), RELEASED)

    def _is_free(self, name: str, number: int, content: dict[str, Any]) -> bool:
        if content.get("state") in (RELEASED, FAILED):
            return content["state"] == RELEASED
        look = (number, content)
        if self._seen.get(name, (None, 0.0))[0] != look:
            self._seen[name] = look, self.clock()
        return self.clock() - self._seen[name][1] >= self.stale

    def _newest(self, name: str) -> tuple[int, dict[str, Any] | None]:
        """Number and content of the claim that counts; empty content where its owner has only just made it, or died doing so."""
        numbers = [int(text) for path in self.folder.glob(f"{name}.*.json") if (text := path.name[len(name) + 1 : -5]).isdigit()]
        if not numbers:
            return 0, None
        content: Any = {}
        with suppress(OSError, ValueError):
            content = json.loads(self._path(name, max(numbers)).read_text())
        return max(numbers), content if isinstance(content, dict) else {}

    def _path(self, name: str, number: int) -> Path:
        return self.folder / f"{name}.{number}.json"

    def _write(self, claim: Claim, state: str, **more: Any) -> None:
        content = {"owner": self.owner, "state": state, "beats": self._beats, "tries": claim.tries, **more}
        write_json(self._path(claim.name, claim.number), content)
