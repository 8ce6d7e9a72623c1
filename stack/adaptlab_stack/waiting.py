"""How the supervising loop sleeps, and how it learns that it should stop."""

import os
import select
import signal
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Protocol, Self

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Handler = Callable[[int, FrameType | None], object] | int | None


class Waiting(Protocol):
    """Sleep of a supervising loop."""

    @property
    def stop_requested(self) -> bool:
        """Whether somebody asked for the end."""
        ...

    def pause(self, seconds: float) -> None:
        """Sleep, or wake up early when something happened."""
        ...


class Polling:
    """Plain sleep, for a caller that keeps its own signal handlers."""

    stop_requested = False

    def pause(self, seconds: float) -> None:
        """Sleep for a moment; a child's end is found by looking."""
        time.sleep(min(seconds, 0.02))


class SignalWaiting:
    """Sleep that signals end: the death of a child, and requests to stop, which it remembers."""

    def __init__(self) -> None:
        self._requests = 0
        self._previous: dict[signal.Signals, Handler] = {}
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._previous_wakeup = -1

    @property
    def stop_requested(self) -> bool:
        """Whether SIGINT, SIGTERM or SIGHUP has come."""
        return self._requests > 0

    def pause(self, seconds: float) -> None:
        """Sleep until a signal comes, at most `seconds`."""
        readable, _, _ = select.select([self._reader], [], [], max(seconds, 0))
        if readable:
            os.read(self._reader, 4096)

    def __enter__(self) -> Self:
        self._previous_wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in STOP_SIGNALS:
            # A signal ignored from the start (nohup) stays ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._remember)
        self._previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, _wake)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_wakeup)
        os.close(self._reader)
        os.close(self._writer)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self._requests += 1


def _wake(number: int, frame: FrameType | None) -> None:
    """Do nothing: that there is a handler makes the kernel deliver the signal."""
