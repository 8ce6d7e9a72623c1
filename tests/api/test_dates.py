"""The date in answers is that of their second, without a timer."""

from types import SimpleNamespace

import pytest

from adaptlab_api import server
from adaptlab_api.server import DatedState


def test_answers_carry_the_date_of_their_second(monkeypatch: pytest.MonkeyPatch) -> None:
    state, now = DatedState(), [0.0]
    monkeypatch.setattr(server, "time", SimpleNamespace(time=lambda: now[0]))
    state.default_headers = [(b"date", b"whenever"), (b"x-more", b"yes")]
    for now[0], date in (
        (1.0, b"Thu, 01 Jan 1970 00:00:01 GMT"),
        (1.9, b"Thu, 01 Jan 1970 00:00:01 GMT"),
        (3600.0, b"Thu, 01 Jan 1970 01:00:00 GMT"),
    ):
        assert state.default_headers == [(b"date", date), (b"x-more", b"yes")]
    assert state.default_headers is state.default_headers, "made once in a second"
