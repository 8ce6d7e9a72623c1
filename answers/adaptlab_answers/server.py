"""The server about itself: workers, capabilities and health."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from adaptlab.values import Value


class WorkerView(Value):
    """A worker process; `live` while it was heard of in the last minute.

    `unschedulable` says why it takes no jobs although it lives; null where it does.
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
    """The workers heard of last, live ones first."""

    data: tuple[WorkerView, ...]


class Limits(Value):
    """Sizes beyond which a request is refused or cut."""

    body_bytes: int
    json_depth: int
    page_size: int
    wait_seconds: int
    idempotency_key_days: int
    upload_bytes: int
    upload_chunk_bytes: int


class Capabilities(Value):
    """What this server is and knows; names may be added at any time."""

    version: str
    api: Literal["v1"] = "v1"
    spec_version: int
    job_states: tuple[str, ...]
    methods: tuple[str, ...]
    tasks: tuple[str, ...]
    families: tuple[str, ...]
    limits: Limits


class Health(Value):
    """A sign of life; `degraded` names what does not answer and is not needed for every request."""

    status: Literal["ok", "ready"]
    degraded: tuple[str, ...] = ()
