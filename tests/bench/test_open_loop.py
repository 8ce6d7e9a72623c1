"""What the benchmarks compute, on numbers that can be worked out by hand."""

import threading
import time

import pytest

from bench.open_loop import latencies

RATE = 100.0
HELD_UP = 0.05


def test_a_request_that_was_due_while_another_held_the_connection_has_waited_too():
    def send(number: int) -> None:
        if number == 0:
            time.sleep(HELD_UP)

    taken = latencies([send], RATE, 4)
    for number, seconds in enumerate(taken):
        assert seconds >= HELD_UP - number / RATE


def test_a_second_connection_takes_what_is_due_meanwhile():
    arrived = threading.Event()

    def send(number: int) -> None:
        if number == 0:
            assert arrived.wait(60), "nobody else sent the second request"
        else:
            arrived.set()

    assert len(latencies([send, send], RATE, 2)) == 2


def test_requests_are_not_sent_before_they_are_due():
    begin = time.perf_counter()
    latencies([lambda _: None] * 2, RATE, 6)
    assert time.perf_counter() - begin >= 5 / RATE


def test_what_a_connection_raises_is_raised():
    def fail(number: int) -> None:
        raise ConnectionError(f"request {number}")

    with pytest.raises(ConnectionError, match="request 0"):
        latencies([fail], RATE, 3)
