"""Listening to the broker: few requests, and an immediate close."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from kombu import Connection
from tests.worker.conftest import PATIENCE

from adaptlab_services.lifecycle.doorbell import ring
from adaptlab_services.settings import Settings
from adaptlab_worker.loop.app import celery_app, doorbell_queue, pending_doorbells
from adaptlab_worker.loop.quiet_transport import LISTEN_SECONDS


@pytest.fixture
def broker(settings: Settings) -> Iterator[Connection]:
    """The broker as a worker reaches it."""
    app = celery_app(settings)
    with app.connection_for_read() as connection:
        connection.connect()
        yield connection
    app.close()


def test_a_worker_asks_rarely(broker: Connection) -> None:
    channel: Any = broker.default_channel
    assert channel.brpop_timeout == LISTEN_SECONDS


def listening(broker: Connection, queues: Sequence[str]) -> Any:
    """A channel that waits for messages of these queues."""
    channel: Any = broker.channel()
    channel.brpop_timeout = 0
    for queue in queues:
        channel.queue_declare(doorbell_queue(queue))
        channel.basic_consume(doorbell_queue(queue), False, print, queue)
    cycle: Any = channel.connection.cycle
    cycle.on_poll_start()
    return channel


def test_who_listens_closes_without_an_answer(broker: Connection) -> None:
    listening(broker, ["cpu"]).close()  # Kombu's own would wait for ever
    other: Any = broker.default_channel
    clients: list[dict[str, str]] = other.client.client_list()
    assert "brpop" not in {client["cmd"] for client in clients if "b" in client["flags"]}


def test_a_message_that_has_come_is_there_for_others(
    broker: Connection, settings: Settings
) -> None:
    channel = listening(broker, ["cpu"])
    ring(settings.broker_url, ["cpu"])
    assert channel._in_poll.can_read(PATIENCE)
    channel.basic_cancel("cpu")  # as Celery does
    channel.close()
    app = celery_app(settings)
    assert pending_doorbells(app, "cpu") == 1
    app.close()
