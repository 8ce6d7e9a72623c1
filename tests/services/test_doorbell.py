"""The doorbell reaches the broker, and its silence harms nobody."""

import json
import logging
import socket
import time
from base64 import b64decode
from typing import cast

import pytest
import redis

from adaptlab_services.doorbell import ring


def test_a_ring_names_the_queue_and_nothing_else(broker_url: str) -> None:
    ring(broker_url, ["cpu", "gpu"])
    with redis.Redis.from_url(broker_url) as client:
        for queue in ("cpu", "gpu"):
            message = json.loads(cast("bytes", client.rpop(f"doorbell.{queue}")))
            arguments, keywords, _ = json.loads(b64decode(message["body"]))
            assert message["headers"]["task"] == "adaptlab.doorbell"
            assert (arguments, keywords) == ([queue], {})


def test_a_broker_that_refuses_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with caplog.at_level(logging.WARNING):
        ring(f"redis://127.0.0.1:{port}/0", ["cpu"])
    assert "workers will poll" in caplog.text


def test_a_broker_that_does_not_answer_is_given_up_in_two_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        started = time.monotonic()
        ring(f"redis://127.0.0.1:{port}/0", ["cpu", "gpu", "third"])
        assert time.monotonic() - started < 2
    assert "workers will poll" in caplog.text


def test_a_connection_that_was_cut_does_not_silence_the_next_ring(broker_url: str) -> None:
    with redis.Redis.from_url(broker_url) as client:
        before = _connections(client)
        ring(broker_url, ["cut"])
        kept = _connections(client) - before
        for connection in kept:
            client.client_kill_filter(_id=connection)
        ring(broker_url, ["cut"])
        assert client.llen("doorbell.cut") == 2
        client.delete("doorbell.cut")


def _connections(client: "redis.Redis") -> set[str]:
    return {connection["id"] for connection in client.client_list()}
