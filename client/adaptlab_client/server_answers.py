"""What a server answers about itself: workers, versions and limits, what it stores."""

from datetime import datetime

from adaptlab_client.answers import Answer


class WorkerEntry(Answer):
    """A worker process; `live` while it was heard of in the last minute.

    `unschedulable` says why it takes no jobs although it lives; None where it does.
    """

    id: str
    host: str
    process_id: int
    queues: tuple[str, ...] = ()
    live: bool
    started_at: datetime
    heartbeat_at: datetime
    unschedulable: str | None = None


class Workers(Answer):
    """The workers heard of last."""

    data: tuple[WorkerEntry, ...]


class Limits(Answer):
    """Sizes beyond which a server refuses or cuts a request."""

    body_bytes: int = 0
    json_depth: int = 0
    page_size: int = 0
    wait_seconds: int = 0
    idempotency_key_days: int = 0
    upload_bytes: int = 0
    upload_chunk_bytes: int = 0


class Capabilities(Answer):
    """What a server is and knows."""

    version: str
    api: str = "v1"
    spec_version: int = 0
    job_states: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    limits: Limits = Limits()


class Health(Answer):
    """A sign of life; `status` is ok, or ready once the database answers too.

    `degraded` names what does not answer and is not needed for every request, such as the broker.
    """

    status: str
    degraded: tuple[str, ...] = ()


class StoredShare(Answer):
    """The artifacts of one store in one state."""

    store: str
    state: str
    artifacts: int = 0
    bytes: int = 0
    least_recently_checked: datetime | None = None


class Storage(Answer):
    """What is stored where; what is unreferenced will be collected."""

    shares: tuple[StoredShare, ...] = ()
    unreferenced: int = 0
    unreferenced_bytes: int = 0
