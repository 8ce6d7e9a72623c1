"""The doorbell: wakes the workers of a queue. Nothing depends on it, since workers also poll."""

import logging
from collections.abc import Iterable
from functools import cache

from celery import Celery

DOORBELL = "adaptlab.doorbell"
SOCKET_SECONDS = 0.9  # connecting and sending may each take so long
MOST_AT_ONCE = 100

log = logging.getLogger(__name__)


def ring(broker_url: str, queues: Iterable[str]) -> None:
    """Wake the workers of these queues; to be called after the commit of what they shall see.

    Returns within two seconds. A broker that is away is logged and is no error.
    """
    app = _app(broker_url)
    try:
        for queue in queues:
            app.send_task(DOORBELL, args=[queue], queue=f"doorbell.{queue}", retry=False)
    except Exception as error:  # noqa: BLE001 - whatever it was, the work is stored and found later
        log.warning("the doorbell is silent, workers will poll: %s", error)


@cache
def _app(broker_url: str) -> Celery:
    """Kept with its connections for as long as the process lives, which saves 2 ms a ring.

    A connection that has gone stale is opened anew by the client itself.
    """
    app = Celery("adaptlab", broker=broker_url, set_as_current=False)
    app.conf.update(
        task_serializer="json",
        task_ignore_result=True,
        # More than ever ring at once: while a broker hangs, rings must not wait for each other.
        broker_pool_limit=MOST_AT_ONCE,
        broker_transport_options={
            "socket_timeout": SOCKET_SECONDS,
            "socket_connect_timeout": SOCKET_SECONDS,
            "max_retries": 0,
        },
    )
    return app
