"""Wakes a thread that waits for a pipe, from another thread."""

import socket
import threading
from contextlib import suppress


class Wake:
    """Something to be polled beside a pipe; it becomes readable when it is called."""

    def __init__(self) -> None:
        self._near, self._far = socket.socketpair()
        self._near.setblocking(False)
        self._far.setblocking(False)
        self._lock = threading.RLock()  # a handler of signals may call in the midst of a call
        self._is_closed = False

    def __call__(self) -> None:
        """Wake whoever polls now, or will next; any thread may, also when it is closed."""
        with self._lock, suppress(BlockingIOError):  # full: it is readable already
            if not self._is_closed:
                self._far.send(b"\0")

    def fileno(self) -> int:
        """What is polled."""
        return self._near.fileno()

    def forget(self) -> None:
        """Be quiet again, until the next call."""
        with suppress(BlockingIOError):
            self._near.recv(4096)

    def close(self) -> None:
        """Give the descriptors back."""
        with self._lock:
            self._is_closed = True
            self._near.close()
            self._far.close()
