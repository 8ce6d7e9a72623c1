"""The doorbell reaches the broker, and its silence harms nobody."""

import json
import logging
import socket
import threading
import time
from base64 import b64decode
from typing import cast

import pytest
import redis
from tests.patience import nobody_listens
from tests.watching import until

from adaptlab_services.lifecycle.doorbell import MOST_WAITING, Bell, ring


@pytest.mark.usefixtures("patient_bell")
def test_a_ring_names_the_queue_and_nothing_else(broker_url: str) -> None:
    ring(broker_url, ["cpu", "gpu"])
    with redis.Redis.from_url(broker_url) as client:
        for queue in ("cpu", "gpu"):
            message = json.loads(cast("bytes", client.rpop(f"doorbell.{queue}")))
            arguments, keywords, _ = json.loads(b64decode(message["body"]))
            assert message["headers"]["task"] == "adaptlab.doorbell"
            assert (arguments, keywords) == ([queue], {})


def test_a_broker_that_refuses_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    with nobody_listens() as port, caplog.at_level(logging.WARNING):
        ring(f"redis://127.0.0.1:{port}/0", ["cpu"])
    assert "workers will poll" in caplog.text


def test_a_broker_that_does_not_answer_is_given_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        started = time.monotonic()
        ring(f"redis://127.0.0.1:{port}/0", ["cpu", "gpu", "third"])
        assert time.monotonic() - started < 60  # two on an idle machine
    assert "workers will poll" in caplog.text


@pytest.mark.usefixtures("patient_bell")
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


@pytest.mark.usefixtures("patient_bell")
def test_a_worker_is_woken_for_every_time_that_a_queue_is_named(broker_url: str) -> None:
    ring(broker_url, ["cpu", "gpu", "cpu"])
    with redis.Redis.from_url(broker_url) as client:
        assert (client.llen("doorbell.cpu"), client.llen("doorbell.gpu")) == (2, 1)
        tags = {json.loads(one)["properties"]["delivery_tag"] for one in _waiting(client, "cpu")}
        assert len(tags) == 2


@pytest.mark.usefixtures("patient_bell")
def test_a_queue_that_nobody_serves_does_not_fill_the_broker(broker_url: str) -> None:
    for _ in range(3):
        ring(broker_url, ["unserved"] * MOST_WAITING)
    with redis.Redis.from_url(broker_url) as client:
        assert client.llen("doorbell.unserved") == MOST_WAITING


@pytest.mark.usefixtures("patient_bell")
def test_a_bell_rings_all_that_it_was_told_before_it_ends(broker_url: str) -> None:
    bell = Bell(broker_url)
    for _ in range(20):
        bell.ring(["cpu", "gpu"])
    bell.close()
    with redis.Redis.from_url(broker_url) as client:
        assert (client.llen("doorbell.cpu"), client.llen("doorbell.gpu")) == (20, 20)


def test_who_rings_a_bell_waits_for_no_broker(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, told = threading.Event(), list[list[str]]()

    def hang(_: str, queues: list[str]) -> None:
        told.append(queues)
        assert answers.wait(60)

    monkeypatch.setattr("adaptlab_services.lifecycle.doorbell.ring", hang)
    bell = Bell(broker_url)
    for number in range(50):
        bell.ring([f"queue-{number}"])  # with a bell that waits, the first never returned
    answers.set()
    bell.close()
    assert [queue for queues in told for queue in queues] == [f"queue-{n}" for n in range(50)]


def test_what_is_rung_soon_after_a_ring_goes_together(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[list[str]]()
    monkeypatch.setattr(
        "adaptlab_services.lifecycle.doorbell.ring", lambda _, queues: told.append(queues)
    )  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    monkeypatch.setattr("adaptlab_services.lifecycle.doorbell.REST_SECONDS", 600.0)
    bell = Bell(broker_url)
    bell.ring(["first"])
    until(lambda: bool(told), "first ring")
    for number in range(20):
        bell.ring([f"queue-{number}"])
        threading.Event().wait(0.005)  # a bell without rest would ring meanwhile
    bell.close()
    assert told == [["first"], [f"queue-{n}" for n in range(20)]]


def _waiting(client: "redis.Redis", queue: str) -> list[bytes]:
    return cast("list[bytes]", client.lrange(f"doorbell.{queue}", 0, -1))


def _connections(client: "redis.Redis") -> set[str]:
    return {connection["id"] for connection in client.client_list()}
