"""Ctrl-C and SIGTERM as a request to stop at the next safe place."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Self


class Interrupted(Exception):
    """Training stopped by a signal. Everything up to `update` is on disk."""

    def __init__(self, signal_number: int, update: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name} at update {update}; the same command resumes there")
        self.code = 128 + signal_number


class StopRequests:
    """Context that records the first SIGINT or SIGTERM. A second signal has its usual effect."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        try:
            self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not the main thread, which alone can handle signals
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


class CtrlC:
    """Context in which Ctrl-C raises a KeyboardInterrupt, even if an interrupted import turned it into another error."""

    def __init__(self) -> None:
        self.received = False
        self._before: object = None

    def __enter__(self) -> None:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
            self._before = None
        else:
            signal.signal(signal.SIGINT, self._raise)

    def _raise(self, number: int, frame: FrameType | None) -> None:
        self.received = True
        raise KeyboardInterrupt

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]
        if self.received and isinstance(error, Exception) and not isinstance(error, Interrupted):
            raise KeyboardInterrupt from None
