"""A server's workers, capabilities and health."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from adaptlab.printable import OneLine
from adaptlab.values import Value

MOST_GPUS = 64
Bytes = Annotated[int, Field(ge=0, le=2**63 - 1)]


class GpuLoad(Value):
    """The memory of one GPU that a worker can use, and how busy it is.

    All processes on the GPU count. `busy` is the share of the last second, from 0 to 1, in which
    something ran on it, or null if its driver does not report that.
    """

    index: Annotated[int, Field(ge=0, le=4096)]
    name: Annotated[OneLine, Field(max_length=128)]
    memory_bytes: Bytes
    memory_used_bytes: Bytes
    busy: Annotated[float, Field(ge=0, le=1)] | None = None


class WorkerLoad(Value):
    """Memory of a worker with its trainers, of its machine and its GPUs.

    `has_compiler` is false if the machine has no C compiler, without which training on a CPU takes
    longer. It is null for workers of older versions.
    """

    memory_used_bytes: Bytes
    machine_memory_bytes: Bytes
    machine_memory_available_bytes: Bytes
    has_compiler: bool | None = None
    gpus: Annotated[tuple[GpuLoad, ...], Field(max_length=MOST_GPUS)] = ()


STARTING = "It is starting."
"""Why a worker takes no jobs until its first trainer has loaded."""


class WorkerView(Value):
    """A worker process.

    It is `live` if its last heartbeat is less than a minute old. `unschedulable` is the reason why
    a live worker takes no jobs, or null. `load` is the memory that it last reported, with its GPUs,
    or null.
    """

    id: UUID
    host: str
    process_id: int
    queues: tuple[str, ...]
    live: bool
    started_at: datetime
    heartbeat_at: datetime
    unschedulable: str | None
    load: WorkerLoad | None = None


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


class Expiry(Value):
    """Days after which the server removes things by itself; null is never.

    `archived_days` is about jobs that have ended and been archived for so long, `curve_days` about
    the points of learning curves, and `worker_days` about workers without a sign of life.
    """

    archived_days: float | None = None
    curve_days: float | None = None
    worker_days: float | None = None
    attention_days: float | None = None
    checkpoint_days: float | None = None


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
    expiry: Expiry = Expiry()


class Health(Value):
    """Health of the server.

    `degraded` lists services that fail but are not needed by every request.
    """

    status: Literal["ok", "ready"]
    degraded: tuple[str, ...] = ()
