"""Ctrl-C, SIGTERM and the end of the terminal as a request to stop at the next safe place."""

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Self


class Interrupted(KeyboardInterrupt):
    """Training stopped by a signal. Everything up to `update` is on disk. As after Ctrl-C, `except Exception` lets it pass.

    Attributes:
      code: exit status for a program that the signal ends, 128 plus the number of the signal.
    """

    def __init__(self, signal_number: int, update: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name} at update {update}; the same command resumes there")
        self.code = 128 + signal_number


class StopRequests:
    """Context that records the first SIGINT, SIGTERM or SIGHUP. A second signal has its usual effect.

    SIGHUP stays ignored if it is ignored, as under `nohup`. The end of a terminal may send two, so a second SIGHUP is ignored, too.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, object] = {}
        self._terminals: list[int] = []

    def __enter__(self) -> Self:
        self._terminals = [number for number in (1, 2) if os.isatty(number)]
        try:
            self._before = {number: signal.signal(number, self._note) for number in _requests()}
        except ValueError:  # not the main thread, which alone can handle signals
            self._before = {}
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._restore()
        if number not in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # the kernel sends one, and the shell another
        _leave([terminal for terminal in self._terminals if not os.isatty(terminal)])

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._restore()


def _requests() -> list[signal.Signals]:
    """Return the signals that ask to stop. Windows has no SIGHUP."""
    hangups = [one for one in signal.Signals if one.name == "SIGHUP" and signal.getsignal(one) is not signal.SIG_IGN]
    return [signal.SIGINT, signal.SIGTERM, *hangups]


def _leave(terminals: list[int]) -> None:
    """Discard what is written to terminals that are gone: an error of such a write would come before the checkpoint."""
    for terminal in terminals:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), terminal)


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
        if self.received and isinstance(error, Exception):
            raise KeyboardInterrupt from None
