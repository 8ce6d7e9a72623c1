"""What workers and the API say to each other about leases."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from adaptlab.measurements.results import AttentionCaptured, CheckpointWritten, Event, TrainingSaved
from adaptlab.specs.spec import Queue, ResolvedSpec
from adaptlab.values import Value
from adaptlab_services.lifecycle.claims import AdapterWeights, BaseWeights, Claim, SavedTraining
from adaptlab_services.lifecycle.transitions import LONGEST_ERROR, Reason

MOST_EVENTS = 10_000
LONGEST_WHY = 1000
MOST_QUEUES = 64

Ending = Literal["succeeded", "failed", "released", "paused", "stopped"]
Number = Annotated[int, Field(ge=0, le=2**31 - 1)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Queues = Annotated[tuple[Queue, ...], Field(min_length=1, max_length=MOST_QUEUES)]


class NewWorker(Value):
    """A worker process that makes itself known; `host` and `process_id` are for people."""

    host: Annotated[str, Field(min_length=1, max_length=255)]
    process_id: Number
    queues: Queues


class RegisteredWorker(Value):
    """The name under which a worker claims."""

    id: UUID


class StandingBack(Value):
    """Why a worker takes no jobs although it lives."""

    why: Annotated[str, Field(min_length=1, max_length=LONGEST_WHY)]


class NewLease(Value):
    """A worker asks for the most urgent job of some queues.

    `id` is the name of the lease, made by the worker for this claim alone: where the answer was
    lost, the same request brings it again. With `within_seconds` it is the most urgent of the jobs
    that are foreseen to end in that time.
    """

    id: UUID
    worker: UUID
    queues: Queues
    within_seconds: Annotated[float, Field(gt=0)] | None = None


class LeaseView(Value):
    """A job that a worker holds, and all that it has to know to carry it out.

    The lease ends `lease_seconds` after the claim and after each heartbeat. `bases` are the
    weights of the base model's replicates and `adapters` those of adaptations that are measured;
    `resume` is where an earlier attempt left off. With `strict` the run must have ended before the
    lease does.
    """

    id: UUID
    job_id: UUID
    attempt: int
    lease_seconds: float
    max_seconds: int
    resolved_spec: ResolvedSpec
    bases: tuple[BaseWeights, ...]
    adapters: tuple[AdapterWeights, ...]
    resume: SavedTraining | None
    strict: bool

    @classmethod
    def of(cls, claim: Claim) -> "LeaseView":
        """What is sent of a claim."""
        return cls(
            id=claim.claim_id,
            job_id=claim.job_id,
            attempt=claim.attempt,
            lease_seconds=claim.lease_seconds,
            max_seconds=claim.max_seconds,
            resolved_spec=claim.resolved_spec,
            bases=claim.bases,
            adapters=claim.adapters,
            resume=claim.resume,
            strict=claim.strict,
        )

    def claim(self) -> Claim:
        """The claim that was sent."""
        return Claim(
            job_id=self.job_id,
            attempt=self.attempt,
            claim_id=self.id,
            lease_seconds=self.lease_seconds,
            resolved_spec=self.resolved_spec,
            max_seconds=self.max_seconds,
            bases=self.bases,
            resume=self.resume,
            adapters=self.adapters,
            strict=self.strict,
        )


class HeartbeatReport(Value):
    """A sign of life, with the training step."""

    step: Number


class HeartbeatAnswer(Value):
    """What the worker is to do: go on, stop, or stop with the state of the training saved."""

    command: Literal["continue", "stop", "pause"]


class NewRecords(Value):
    """What a run reports, in the order in which it happened.

    `artifacts` gives the SHA-256 of stored content for every path that an event names; a path is
    a name here and nothing else.
    """

    events: Annotated[tuple[Event, ...], Field(max_length=MOST_EVENTS)]
    artifacts: dict[str, Sha256] = Field(default_factory=dict[str, Sha256])

    @property
    def by_path(self) -> Mapping[Path, str]:
        """The digests as the ledger takes them."""
        return {Path(name): sha256 for name, sha256 in self.artifacts.items()}


class LeaseEnd(Value):
    """How the attempt ended; `retry` is of failures alone, and `reason` is left out by successes.

    `released` gives the job back unfinished, through no fault of its own.
    """

    outcome: Ending
    reason: Reason | None = None
    error: Annotated[str, Field(max_length=LONGEST_ERROR)] | None = None
    retry: bool = False


class QueuesWithWork(Value):
    """The queues in which the end of an attempt has left new work."""

    queues: tuple[str, ...]


class StoredContent(Value):
    """The name of what was stored, and its size in bytes."""

    sha256: str
    size: int


def path_of(event: Event) -> Path | None:
    """The path of the content that comes with an event, if any does."""
    with_content = isinstance(event, AttentionCaptured | CheckpointWritten | TrainingSaved)
    return event.path if with_content else None
