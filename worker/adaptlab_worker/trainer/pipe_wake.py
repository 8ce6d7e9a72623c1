"""A way to wake a thread that waits for a pipe."""

import socket
import threading
from contextlib import suppress


class Wake:
    """A descriptor to poll along with a pipe; a call makes it readable."""

    def __init__(self) -> None:
        self._near, self._far = socket.socketpair()
        self._near.setblocking(False)
        self._far.setblocking(False)
        self._lock = threading.RLock()  # a signal handler may call during a call
        self._is_closed = False

    def __call__(self) -> None:
        """Wake the thread that polls now or next.

        Any thread may call it, even after `close`.
        """
        with self._lock, suppress(BlockingIOError):  # full: it is readable already
            if not self._is_closed:
                self._far.send(b"\0")

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._near.fileno()

    def forget(self) -> None:
        """Reset, until the next call."""
        with suppress(BlockingIOError):
            self._near.recv(4096)

    def close(self) -> None:
        """Close the descriptors."""
        with self._lock:
            self._is_closed = True
            self._near.close()
            self._far.close()
