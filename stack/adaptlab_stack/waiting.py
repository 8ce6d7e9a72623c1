"""The sleep of the supervising loop, and its requests to stop."""

import os
import select
import signal
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Protocol, Self

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DRAIN_SIGNAL = signal.SIGUSR1
RELOAD_SIGNAL = signal.SIGUSR2
REQUEST_SIGNALS = (DRAIN_SIGNAL, RELOAD_SIGNAL)

Handler = Callable[[int, FrameType | None], object] | int | None


class Waiting(Protocol):
    """The sleep of a supervising loop."""

    @property
    def stop_requested(self) -> bool:
        """True once a stop was requested."""
        ...

    def pause(self, seconds: float) -> None:
        """Sleep, or wake up early if something happened."""
        ...


class Polling:
    """Plain sleep, for a caller that keeps its own signal handlers."""

    stop_requested = False

    def pause(self, seconds: float) -> None:
        """Sleep for a moment; the end of a child is found by polling."""
        time.sleep(min(seconds, 0.02))


class SignalWaiting:
    """A sleep that ends with a signal: a child's death or a request to stop.

    Requests to stop are remembered.
    """

    def __init__(self) -> None:
        self._requests = 0
        self._pending: set[int] = set()
        self._previous: dict[signal.Signals, Handler] = {}
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._previous_wakeup = -1

    @property
    def stop_requested(self) -> bool:
        """True once SIGINT, SIGTERM or SIGHUP was received."""
        return self._requests > 0

    def take(self, number: signal.Signals) -> bool:
        """Return True if a request was received since the last call.

        Args:
            number: one of `REQUEST_SIGNALS`.
        """
        is_pending = number in self._pending
        self._pending.discard(number)
        return is_pending

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
        for number in REQUEST_SIGNALS:
            self._previous[number] = signal.signal(number, self._request)
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

    def _request(self, number: int, frame: FrameType | None) -> None:
        self._pending.add(number)


def _wake(number: int, frame: FrameType | None) -> None:
    """Do nothing; with a handler, the kernel delivers the signal."""
