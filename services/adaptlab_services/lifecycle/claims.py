"""What a worker holds while it works on a job, and the condition under which it still does."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import BindParameter, ColumnElement, Integer, Uuid, bindparam

from adaptlab.specs.spec import ResolvedSpec
from adaptlab_db.tables import Job


@dataclass(frozen=True, slots=True)
class BaseWeights:
    """The weights of one replicate of a base model, as an artifact."""

    replicate: int
    sha256: str


@dataclass(frozen=True, slots=True)
class AdapterWeights:
    """The trained tensors of one seed of an adaptation that is measured, as an artifact.

    `adaptation` is its place among those of the resolved spec.
    """

    adaptation: int
    seed: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SavedTraining:
    """The state of a training after some step, as an artifact."""

    step: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Lease:
    """The hold of a worker on a job: the fencing token that every write of it names.

    Attributes:
        claim_id: made for this claim alone; numbers of attempts repeat when the database was
            restored, or failed over to a copy that lacked the last commits.
        lease_seconds: how long the lease lasts after the claim and after each heartbeat.
    """

    job_id: UUID
    attempt: int
    claim_id: UUID
    lease_seconds: float


@dataclass(frozen=True, slots=True)
class Claim(Lease):
    """A lease, and what is to be done under it.

    Attributes:
        bases: the base model's replicates in order; empty for a job that makes one.
        adapters: what theory checks measure of adaptations; empty for any other job.
        resume: where an earlier attempt left off; None starts from the first step.
        strict: whether the run must have ended before the lease does, because two at a time would
            do harm; see `resources.self_fence`.
    """

    resolved_spec: ResolvedSpec
    max_seconds: int
    bases: tuple[BaseWeights, ...]
    resume: SavedTraining | None = None
    adapters: tuple[AdapterWeights, ...] = ()
    strict: bool = False


@dataclass(frozen=True, slots=True)
class LeaseParameters:
    """Stands for a lease in a statement that is made once, and given each with `given`."""

    job_id: BindParameter[UUID]
    attempt: BindParameter[int]
    claim_id: BindParameter[UUID]


def held(lease: Lease | LeaseParameters) -> list[ColumnElement[bool]]:
    """The fence: what is true of the job's row exactly as long as the lease holds.

    The first statement of every write on behalf of a worker is an UPDATE under this condition. It
    locks the row, so that nobody can take the job away before the write is committed, and it
    changes no row when somebody has.
    """
    return [
        Job.id == lease.job_id,
        Job.attempt == lease.attempt,
        Job.claim_id == lease.claim_id,
        Job.state == "running",
    ]


AS_GIVEN = LeaseParameters(
    bindparam("lease_job", type_=Uuid[UUID]()),
    bindparam("lease_attempt", type_=Integer()),
    bindparam("lease_claim", type_=Uuid[UUID]()),
)


def given(lease: Lease) -> dict[str, object]:
    """The parameters of `AS_GIVEN`."""
    return {
        AS_GIVEN.job_id.key: lease.job_id,
        AS_GIVEN.attempt.key: lease.attempt,
        AS_GIVEN.claim_id.key: lease.claim_id,
    }
