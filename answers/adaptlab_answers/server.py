"""A server's workers, capabilities and health."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from adaptlab.values import Value


class WorkerView(Value):
    """A worker process.

    It is `live` if its last heartbeat is less than a minute old. `unschedulable` is the reason why
    a live worker takes no jobs, or null.
    """

    id: UUID
    host: str
    process_id: int
    queues: tuple[str, ...]
    live: bool
    started_at: datetime
    heartbeat_at: datetime
    unschedulable: str | None


class Workers(Value):
    """The workers with the latest heartbeats, live ones first."""

    data: tuple[WorkerView, ...]


class Limits(Value):
    """Limits on requests: larger ones are refused or cut."""

    body_bytes: int
    json_depth: int
    page_size: int
    wait_seconds: int
    idempotency_key_days: int
    upload_bytes: int
    upload_chunk_bytes: int


class Capabilities(Value):
    """Version, names and limits of a server; names may be added at any time."""

    version: str
    api: Literal["v1"] = "v1"
    spec_version: int
    job_states: tuple[str, ...]
    methods: tuple[str, ...]
    tasks: tuple[str, ...]
    families: tuple[str, ...]
    limits: Limits


class Health(Value):
    """Health of the server.

    `degraded` lists services that fail but are not needed by every request.
    """

    status: Literal["ok", "ready"]
    degraded: tuple[str, ...] = ()
