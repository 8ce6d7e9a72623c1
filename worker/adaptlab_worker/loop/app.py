"""The Celery app: messages only wake workers, so a lost one costs nothing.

Retries, delays, results, priorities and cancellation are left to Postgres. Celery delivers a
queue's name, at once or not at all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from celery import Celery

from adaptlab_services.settings import Settings
from adaptlab_worker.loop import quiet_transport

DOORBELL = "adaptlab.doorbell"
SWEEP = "adaptlab.sweep"
STORAGE = "adaptlab.storage"
WEBHOOKS = "adaptlab.webhooks"
MAINTENANCE_QUEUE = "maintenance"
STORAGE_SECONDS = 3600.0
VERIFY = "ssl_cert_reqs"
QUIETENED = {"redis", "rediss"}  # schemes of addresses
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Duties:
    """Callbacks of the tasks; beat, which only sends messages, has none."""

    ring: Callable[[str], None]
    sweep: Callable[[], None]
    tend_storage: Callable[[], None]
    deliver: Callable[[], None]


def doorbell_queue(queue: str) -> str:
    """Return the Celery queue that wakes the workers of a job queue."""
    return f"doorbell.{queue}"


def celery_app(settings: Settings, duties: Duties | None = None) -> Celery:
    """Return a Celery app for one process, with tasks if there are `duties`."""
    app = Celery("adaptlab", broker=_verified(settings.broker_url), set_as_current=False)
    app.conf.update(_configuration(settings))
    if duties is not None:
        _add_tasks(app, duties)
    return app


def _verified(broker_url: str) -> str:
    """Return the address with verification of the broker's certificate.

    For `rediss://host` Celery would accept any certificate; other clients of the broker do not. An
    address that sets the option itself is unchanged.
    """
    address = urlsplit(broker_url)
    if address.scheme != "rediss" or VERIFY in dict(parse_qsl(address.query)):
        return broker_url
    query = "&".join(filter(None, (address.query, f"{VERIFY}=required")))
    return urlunsplit(address._replace(query=query))


def _add_tasks(app: Celery, duties: Duties) -> None:
    @app.task(name=DOORBELL)
    def doorbell(queue: str) -> None:  # pyright: ignore[reportUnusedFunction] - Celery keeps it
        duties.ring(queue)

    @app.task(name=SWEEP)
    def sweep() -> None:  # pyright: ignore[reportUnusedFunction] - Celery keeps it
        duties.sweep()

    @app.task(name=STORAGE)
    def storage() -> None:  # pyright: ignore[reportUnusedFunction] - Celery keeps it
        duties.tend_storage()

    @app.task(name=WEBHOOKS)
    def webhooks() -> None:  # pyright: ignore[reportUnusedFunction] - Celery keeps it
        duties.deliver()


def _configuration(settings: Settings) -> dict[str, Any]:
    return {
        # Acknowledged before it runs: a doorbell that is lost costs a poll interval, one that is
        # delivered twice costs a look that finds nothing.
        "task_acks_late": False,
        "task_reject_on_worker_lost": False,
        "task_ignore_result": True,
        "result_backend": None,
        "task_serializer": "json",
        "accept_content": ["json"],
        "enable_utc": True,
        "worker_prefetch_multiplier": 1,
        "worker_disable_prefetch": True,
        "worker_send_task_events": False,
        # Otherwise any client that may publish could stop or control workers.
        "worker_enable_remote_control": False,
        "worker_redirect_stdouts": False,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_transport": _transport(settings.broker_url),
        # By experiment: without these a worker never notices that the other end of its
        # connection is gone.
        "broker_transport_options": {
            "socket_timeout": 30,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "health_check_interval": 10,
        },
        "task_publish_retry_policy": {"max_retries": 1, "interval_start": 0.2},
        # In memory: no state is needed after a restart, so no file is written.
        "beat_scheduler": "celery.beat:Scheduler",
        "beat_schedule": {
            "sweep": _every(settings.sweep_seconds, SWEEP),
            "webhooks": _every(settings.sweep_seconds, WEBHOOKS),
            # As if the last run was long ago: at once, and then every hour.
            "storage": _every(STORAGE_SECONDS, STORAGE) | {"last_run_at": LONG_AGO},
        },
    }


def _transport(broker_url: str) -> str | None:
    """Return the transport for an address; None for Kombu's own."""
    return quiet_transport.known_to_kombu() if urlsplit(broker_url).scheme in QUIETENED else None


def _every(seconds: float, task: str) -> dict[str, Any]:
    return {"task": task, "schedule": seconds, "options": {"queue": MAINTENANCE_QUEUE}}


def pending_doorbells(app: Celery, queue: str) -> int:
    """Return the number of pending doorbells of a job queue."""
    with app.connection_for_read() as connection:
        channel: Any = connection.default_channel  # kombu's types leave out what channels can do
        return int(channel.queue_declare(doorbell_queue(queue), passive=False).message_count)
