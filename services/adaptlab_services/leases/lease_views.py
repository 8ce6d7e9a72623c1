"""Requests and answers about leases, between workers and the API."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from adaptlab.printable import OneLine
from adaptlab.runs.events import (
    AttentionCaptured,
    CheckpointWritten,
    Event,
    Progress,
    TrainingSaved,
)
from adaptlab.runs.inputs import NeededInputs
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.values import Queue, Value
from adaptlab_services.lifecycle.held_leases import Claim
from adaptlab_services.lifecycle.transitions import LONGEST_ERROR, Reason

MOST_EVENTS = 10_000
LONGEST_WHY = 1000
MOST_QUEUES = 64
MOST_ROOTS = 256

Ending = Literal["succeeded", "failed", "released", "paused", "stopped"]
Number = Annotated[int, Field(ge=0, le=2**31 - 1)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Host = Annotated[str, Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z._:-]{0,252}$", max_length=253)]
"""The name of a machine; it is shown to others, and is no place for a message."""
Alias = Annotated[str, Field(min_length=1, max_length=63)]
Queues = Annotated[tuple[Queue, ...], Field(min_length=1, max_length=MOST_QUEUES)]


class NewWorker(Value):
    """A worker process that registers; `host` and `process_id` are for users.

    `model_roots` are the aliases of the model roots that it can read: it gets no job that needs
    another. Without them, it gets any job.
    """

    host: Host
    process_id: Number
    queues: Queues
    model_roots: Annotated[tuple[Alias, ...], Field(max_length=MOST_ROOTS)] | None = None


class RegisteredWorker(Value):
    """The id of a worker, with which it claims jobs."""

    id: UUID


class StandingBack(Value):
    """The reason for which a live worker takes no jobs."""

    why: Annotated[OneLine, Field(min_length=1, max_length=LONGEST_WHY)]


class NewLease(Value):
    """A worker's request for the most urgent job of some queues.

    `id` is the id of the lease, which the worker chooses for this claim alone. If the answer is
    lost, the same request returns it again. With `within_seconds`, only jobs that are expected to
    end in that time are claimed.
    """

    id: UUID
    worker: UUID
    queues: Queues
    within_seconds: Annotated[float, Field(gt=0)] | None = None


class LeaseView(Value):
    """A lease on a job, with everything that the worker needs to run it.

    The lease ends `lease_seconds` after the claim and after each heartbeat. `inputs` are all files
    and folders that the run reads; a folder without stored files is below a model root of the
    worker. With `strict`, the run must end before the lease does.
    """

    id: UUID
    job_id: UUID
    attempt: int
    lease_seconds: float
    max_seconds: int
    resolved_spec: ResolvedSpec
    inputs: NeededInputs
    strict: bool

    @classmethod
    def of(cls, claim: Claim) -> "LeaseView":
        """Return the answer to a claim."""
        return cls(
            id=claim.claim_id,
            job_id=claim.job_id,
            attempt=claim.attempt,
            lease_seconds=claim.lease_seconds,
            max_seconds=claim.max_seconds,
            resolved_spec=claim.resolved_spec,
            inputs=claim.inputs,
            strict=claim.strict,
        )

    def claim(self) -> Claim:
        """Return the claim in this answer."""
        return Claim(
            job_id=self.job_id,
            attempt=self.attempt,
            claim_id=self.id,
            lease_seconds=self.lease_seconds,
            resolved_spec=self.resolved_spec,
            max_seconds=self.max_seconds,
            inputs=self.inputs,
            strict=self.strict,
        )


class HeartbeatReport(Value):
    """A sign of life, with the step of the training or of a later phase."""

    step: Number
    phase: Progress | None = None


class HeartbeatAnswer(Value):
    """The command for the run.

    It is to continue, to stop, or to save the state of the training and stop.
    """

    command: Literal["continue", "stop", "pause"]


class NewEvents(Value):
    """Events of a run, in the order in which they happened.

    `artifacts` has the SHA-256 of stored content for every path that an event names. Paths are only
    names here.
    """

    events: Annotated[tuple[Event, ...], Field(max_length=MOST_EVENTS)]
    artifacts: dict[str, Sha256] = Field(default_factory=dict[str, Sha256])

    @property
    def by_path(self) -> Mapping[Path, str]:
        """The digests by path, as the ledger expects them."""
        return {Path(name): sha256 for name, sha256 in self.artifacts.items()}


class LeaseEnd(Value):
    """The end of an attempt.

    `retry` is only for failures, and successes have no `reason`. `released` returns the unfinished
    job to its queue, and the attempt does not count.
    """

    outcome: Ending
    reason: Reason | None = None
    error: Annotated[str, Field(max_length=LONGEST_ERROR)] | None = None
    retry: bool = False


class QueuesWithWork(Value):
    """The queues that have new work after the end of an attempt."""

    queues: tuple[str, ...]


class StoredContent(Value):
    """The digest of the stored content, and its size in bytes."""

    sha256: str
    size: int


def path_of(event: Event) -> Path | None:
    """Return the path of the content that belongs to an event, if any does."""
    with_content = isinstance(event, AttentionCaptured | CheckpointWritten | TrainingSaved)
    return event.path if with_content else None
