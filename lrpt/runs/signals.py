"""Ctrl-C and SIGTERM as a request to stop at the next safe place."""

import signal
from types import FrameType, TracebackType
from typing import Self


class Interrupted(Exception):
    """Training was asked to stop; everything up to `update` is on disk."""

    def __init__(self, signal_number: int, update: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name} at update {update}; the same command resumes there")
        self.code = 128 + signal_number


class StopRequests:
    """While active, the first SIGINT or SIGTERM is noted; a second one acts as if nobody listened."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        try:
            self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not the main thread: somebody else listens to signals
            self._before = {}
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._restore()
