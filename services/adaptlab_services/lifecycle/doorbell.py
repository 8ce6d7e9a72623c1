"""The doorbell: wakes the workers of a queue. Nothing depends on it, since workers also poll.

Workers hear it as a Celery message. It is written here as Celery's protocol 2 has it and pushed
onto the list that Celery's workers read, without Celery: that took 3 ms a message and 20 MB of
every process that rings. That its own workers understand it is tested with Celery itself.
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
"""From one message to the broker to the next."""
MOST_WAITING = 100
"""Doorbells kept for one queue; more would wake nobody who is not woken already."""

log = logging.getLogger(__name__)


def ring(broker_url: str, queues: Iterable[str]) -> None:
    """Wake a worker for every queue named; to be called after the commit of what they shall see.

    Returns within two seconds. A broker that is away is logged and is no error.
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
    except Exception as error:  # noqa: BLE001 - whatever it was, the work is stored and found later
        log.warning("the doorbell is silent, workers will poll: %s", error)


def messages(queue: str, count: int) -> list[str]:
    """So many doorbells of a queue, as workers read them; a worker takes one at a time."""
    return [json.dumps(_message(queue, str(uuid4()))) for _ in range(count)]


class Bell:
    """Rings from a thread of its own, so that nobody waits for the broker.

    What is rung while the broker is being told, and a moment after, goes along with the next
    message to it: each by itself took a fifteenth of the time in which jobs are created.
    """

    def __init__(self, broker_url: str) -> None:
        self._broker_url = broker_url
        self._changed = Condition()
        self._wanted: list[str] = []
        self._closing = Event()  # apart from what is rung, which must not end a rest
        self._thread = Thread(target=self._serve, name="doorbell", daemon=True)
        self._thread.start()

    def ring(self, queues: Iterable[str]) -> None:
        """Wake a worker for every queue named, soon; returns at once."""
        with self._changed:
            self._wanted += queues
            self._changed.notify()

    def close(self) -> None:
        """Ring what is left, and end."""
        self._closing.set()
        with self._changed:
            self._changed.notify()
        self._thread.join()

    def _serve(self) -> None:
        while queues := self._next():
            ring(self._broker_url, queues)
            self._closing.wait(REST_SECONDS)

    def _next(self) -> list[str]:
        """What was asked for since the last time, once there is something; nothing at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._wanted or self._closing.is_set())
            queues, self._wanted = self._wanted, []
            return queues


@cache
def _client(broker_url: str) -> redis.Redis:
    """Kept with its connections for as long as the process lives."""
    return redis.Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - its options have no types
        broker_url,
        socket_timeout=SOCKET_SECONDS,
        socket_connect_timeout=SOCKET_SECONDS,
        # A connection that was cut is opened anew; a broker that hangs is not asked again.
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
