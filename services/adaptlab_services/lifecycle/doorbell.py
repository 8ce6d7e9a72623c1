"""The doorbell, which wakes the workers of a queue.

Nothing depends on it, since workers also poll.

Workers receive it as a Celery message. It is written here in Celery's protocol 2 and pushed onto
the list that Celery's workers read. Celery itself took 3 ms per message, and 20 MB in every process
that rings. A test checks that Celery's workers understand the message.
"""

import json
import logging
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable
from functools import cache
from threading import Condition, Event, Thread
from uuid import uuid4

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

DOORBELL = "adaptlab.doorbell"
SOCKET_SECONDS = 0.9  # connecting and sending may each take so long
REST_SECONDS = 0.03
"""Time between two messages to the broker."""
MOST_WAITING = 100
"""Doorbells kept per queue; more would only wake workers that are awake already."""

log = logging.getLogger(__name__)


def ring(broker_url: str, queues: Iterable[str]) -> None:
    """Wake a worker for each queue named; call it after committing the work.

    Returns within two seconds. If the broker does not answer, that is logged and is no error.
    """
    times = Counter(queues)
    try:
        with _client(broker_url).pipeline(  # pyright: ignore[reportUnknownMemberType] - as below
            transaction=False
        ) as pipeline:
            for queue, count in times.items():
                if rung := messages(queue, min(count, MOST_WAITING)):
                    pipeline.lpush(f"doorbell.{queue}", *rung)
                    pipeline.ltrim(f"doorbell.{queue}", 0, MOST_WAITING - 1)
            pipeline.execute()
    except Exception as error:  # noqa: BLE001 - after any error the work is stored, and found by polling
        log.warning("the doorbell failed, workers will poll: %s", error)


def messages(queue: str, count: int) -> list[str]:
    """Return `count` doorbells of a queue, as workers read them.

    Each wakes one worker.
    """
    return [json.dumps(_message(queue, str(uuid4()))) for _ in range(count)]


class Bell:
    """A thread that rings, so that no request waits for the broker.

    Rings during a message to the broker, and for `REST_SECONDS` after it, are sent together in the
    next. One message per ring took a fifteenth of the time of creating a job.
    """

    def __init__(self, broker_url: str) -> None:
        self._broker_url = broker_url
        self._changed = Condition()
        self._wanted: list[str] = []
        self._closing = Event()  # not `_changed`, because new rings must not end a rest
        self._thread = Thread(target=self._serve, name="doorbell", daemon=True)
        self._thread.start()

    def ring(self, queues: Iterable[str]) -> None:
        """Wake a worker for each queue named, soon; returns at once."""
        with self._changed:
            self._wanted += queues
            self._changed.notify()

    def close(self) -> None:
        """Send the rings that are left, and end the thread."""
        self._closing.set()
        with self._changed:
            self._changed.notify()
        self._thread.join()

    def _serve(self) -> None:
        while queues := self._next():
            ring(self._broker_url, queues)
            self._closing.wait(REST_SECONDS)

    def _next(self) -> list[str]:
        """Wait for rings and return their queues; empty when the bell is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._wanted or self._closing.is_set())
            queues, self._wanted = self._wanted, []
            return queues


@cache
def _client(broker_url: str) -> redis.Redis:
    """A client, kept with its connections for the life of the process."""
    return redis.Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - its options have no types
        broker_url,
        socket_timeout=SOCKET_SECONDS,
        socket_connect_timeout=SOCKET_SECONDS,
        # Reconnect once after a cut connection, and never after a timeout.
        retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
    )


def _message(queue: str, identity: str) -> dict[str, object]:
    arguments = [[queue], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
    return {
        "body": b64encode(json.dumps(arguments).encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {
            "lang": "py",
            "task": DOORBELL,
            "id": identity,
            "root_id": identity,
            "parent_id": None,
            "group": None,
            "retries": 0,
            "eta": None,
            "expires": None,
            "timelimit": [None, None],
            "ignore_result": True,
        },
        "properties": {
            "correlation_id": identity,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": f"doorbell.{queue}"},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": identity,
        },
    }
