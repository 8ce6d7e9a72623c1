"""Leases on jobs, and the condition under which they hold."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import BindParameter, ColumnElement, Integer, Uuid, bindparam

from adaptlab.runs.inputs import NOTHING_NEEDED, NeededInputs
from adaptlab.specs.spec import ResolvedSpec
from adaptlab_db.tables import Job


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's lease on a job.

    It is the fencing token that each of the worker's writes names.

    Attributes:
        claim_id: unique to this claim; numbers of attempts repeat if the database was restored, or
            failed over to a copy that lacked the last commits.
        lease_seconds: how long the lease lasts after the claim and after each heartbeat.
    """

    job_id: UUID
    attempt: int
    claim_id: UUID
    lease_seconds: float


@dataclass(frozen=True, slots=True)
class Claim(Lease):
    """A lease, with the work that it is for.

    Attributes:
        inputs: everything that the run reads.
        strict: whether the run must end before the lease does, because two runs at once would do
            harm; see `resources.self_fence`.
    """

    resolved_spec: ResolvedSpec
    max_seconds: int
    inputs: NeededInputs = NOTHING_NEEDED
    strict: bool = False


@dataclass(frozen=True, slots=True)
class LeaseParameters:
    """The parameters of a lease in a statement that is built once.

    `given` sets their values.
    """

    job_id: BindParameter[UUID]
    attempt: BindParameter[int]
    claim_id: BindParameter[UUID]


def held(lease: Lease | LeaseParameters) -> list[ColumnElement[bool]]:
    """Return the fence: conditions that are true exactly while a lease holds.

    The conditions are on the job's row. Every write on behalf of a worker begins with an UPDATE
    under this condition. It locks the row, so that nobody can take the job away before the commit.
    If somebody already has, it changes no row.
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
    """Return the values of the parameters in `AS_GIVEN`."""
    return {
        AS_GIVEN.job_id.key: lease.job_id,
        AS_GIVEN.attempt.key: lease.attempt,
        AS_GIVEN.claim_id.key: lease.claim_id,
    }
