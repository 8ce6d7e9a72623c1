"""The doorbell: wakes the workers of a queue. Nothing depends on it, since workers also poll."""

import logging
from collections.abc import Iterable

from celery import Celery

DOORBELL = "adaptlab.doorbell"
SOCKET_SECONDS = 0.9  # connecting and sending may each take so long

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
    finally:
        app.close()


def _app(broker_url: str) -> Celery:
    # Made for each call, which takes a millisecond: no connection that could have gone stale.
    app = Celery("adaptlab", broker=broker_url, set_as_current=False)
    app.conf.update(
        task_serializer="json",
        task_ignore_result=True,
        broker_transport_options={
            "socket_timeout": SOCKET_SECONDS,
            "socket_connect_timeout": SOCKET_SECONDS,
            "max_retries": 0,
        },
    )
    return app
