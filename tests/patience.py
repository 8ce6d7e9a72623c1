"""Longer limits for tests whose subject is not the time.

For tests whose subject is another one than the time itself.
"""

import os
import socket
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from adaptlab_db import session as db_session
from adaptlab_services.comparisons import comparison_runs
from adaptlab_services.lifecycle import doorbell

LONG = 60.0  # seconds
OWN_LIMITS = dict(db_session.LIMITS)
"""Those of the product, in all processes but those of tests."""


def take_time() -> None:
    """Lengthen the limits of connections and answers in this process.

    A machine that stands still for five seconds ends units of work, and requests are answered 503.
    Tests of a limit set it themselves. The answers of servers that tests start take longer too.
    """
    for name in ("lock_timeout", "idle_in_transaction_session_timeout"):
        db_session.LIMITS[name] = f"{LONG:.0f}s"
    db_session.LIMITS["statement_timeout"] = f"{5 * LONG:.0f}s"
    os.environ.setdefault("ADAPTLAB_ANSWER_SECONDS", f"{5 * LONG:.0f}")


@contextmanager
def nobody_listens() -> Generator[int]:
    """A port at which connections are refused while the block runs."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


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
