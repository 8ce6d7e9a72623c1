"""Longer limits for tests whose subject is not the time.

For tests whose subject is another one than the time itself.
"""

import socket
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from adaptlab_db import session as db_session
from adaptlab_services.comparisons import comparison_runs
from adaptlab_services.lifecycle import doorbell

LONG = 60.0  # seconds


@contextmanager
def nobody_listens() -> Generator[int]:
    """A port at which connections are refused while the block runs."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture
def patient_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let connections wait for locks, and hold them, for a minute.

    For many that want the same rows at once, and for who holds a row while another one comes to
    wait for it. Ask for it by `usefixtures`, so that it comes before the sessions.
    """
    for name in ("lock_timeout", "idle_in_transaction_session_timeout"):
        monkeypatch.setitem(db_session.LIMITS, name, f"{LONG:.0f}s")


@pytest.fixture
def patient_bell(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A doorbell that is rung however long the broker takes to answer."""
    monkeypatch.setattr(doorbell, "SOCKET_SECONDS", LONG)
    doorbell._client.cache_clear()
    yield
    doorbell._client.cache_clear()


@contextmanager
def awaited_comparisons() -> Generator[None]:
    """Requests in the block wait for a comparison however long it takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison_runs, "PATIENCE_SECONDS", LONG)
        yield


@pytest.fixture(autouse=True)
def patient_comparisons() -> Iterator[None]:
    """Requests that wait for a comparison however long it takes."""
    with awaited_comparisons():
        yield
