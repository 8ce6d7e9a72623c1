"""Leases on jobs, and the condition under which they hold."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import BindParameter, ColumnElement, Integer, Uuid, bindparam

from adaptlab.specs.spec import ModelFolder, ResolvedSpec
from adaptlab_db.tables import Job


@dataclass(frozen=True, slots=True)
class BaseWeights:
    """The weights of one replicate of a base model, as an artifact."""

    replicate: int
    sha256: str


@dataclass(frozen=True, slots=True)
class OtherWeights:
    """The weights of another base model on which a job is evaluated.

    `bases` are those of its replicates in order. They are empty if its weights are in `folder`.
    """

    name: str
    bases: tuple[BaseWeights, ...] = ()
    folder: ModelFolder | None = None


@dataclass(frozen=True, slots=True)
class AdapterWeights:
    """The trained tensors of one seed of a measured adaptation.

    The tensors are an artifact. `adaptation` is the index of the adaptation in the resolved spec,
    from 0.
    """

    adaptation: int
    seed: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SavedTraining:
    """The saved state of a training after `step` steps, as an artifact."""

    step: int
    sha256: str


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
        bases: the stored weights of the base model's replicates in order; empty for a job that
            creates one, and for a base model whose weights are in its folder.
        model_folder: the folder from which the run reads weights: that of an import, or of a base
            model whose weights are not stored.
        adapters: the adaptations that theory checks measure; empty for any other job.
        others: other base models on which the job is evaluated.
        resume: the state that an earlier attempt saved; None starts from the first step.
        strict: whether the run must end before the lease does, because two runs at once would do
            harm; see `resources.self_fence`.
    """

    resolved_spec: ResolvedSpec
    max_seconds: int
    bases: tuple[BaseWeights, ...]
    model_folder: ModelFolder | None = None
    resume: SavedTraining | None = None
    adapters: tuple[AdapterWeights, ...] = ()
    others: tuple[OtherWeights, ...] = ()
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
