"""Submission of what a recommendation proposes."""

from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from pydantic import TypeAdapter
from pydantic_core import to_json
from sqlalchemy.orm import Session

from adaptlab.specs.spec import AdaptSpec
from adaptlab.studies.study import StudySpec
from adaptlab_answers.recommendations import ProposedJob, Recommendation
from adaptlab_services.errors import IdempotencyMismatch, StateConflict
from adaptlab_services.jobs import jobs
from adaptlab_services.people.tokens import Principal
from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Rules

Wanted = Literal["all", "study"] | str
"""All jobs, the first study, or the spec digest of one job."""
GONE = (
    "Stored results have changed, so this is no longer proposed. Reload the recommendation and "
    "choose again."
)
_STUDY: TypeAdapter[StudySpec] = TypeAdapter(StudySpec)
_JOB: TypeAdapter[AdaptSpec] = TypeAdapter(AdaptSpec)


@dataclass(frozen=True, slots=True)
class Submitted:
    """The created jobs or study, and the queues with new work."""

    jobs: tuple[UUID, ...] = ()
    study: str | None = None
    queues: tuple[str, ...] = ()


def submit(
    session: Session,
    principal: Principal,
    proposal: Recommendation,
    rules: Rules,
    wanted: Wanted,
    once: str | None = None,
) -> Submitted:
    """Create the jobs or the study that a recommendation proposes.

    The caller computes the recommendation for this call, so that no client can send other jobs in
    its name. A repetition with the same `once` creates nothing new.

    Raises:
        InvalidSpec: a proposed spec is no longer valid.
        StateConflict: the recommendation does not, or no longer, propose what is `wanted`.
        LimitReached: the owner would have too many queued jobs.
        Forbidden: the caller is not allowed to create jobs.
    """
    if wanted == "study":
        if proposal.first_study is None:
            raise StateConflict(GONE)
        spec = _read(_STUDY, proposal.first_study.spec)
        try:
            key = _key(once, "study")
            creation = studies.create(session, principal, spec, rules, idempotency_key=key)
        except IdempotencyMismatch as error:  # the study exists, and another name is proposed now
            raise StateConflict(GONE) from error
        return Submitted(study=creation.study.name, queues=creation.queues)
    chosen = [job for job in proposal.jobs if wanted in ("all", job.spec_digest)]
    if not chosen:
        raise StateConflict(GONE)
    created = [_create(session, principal, job, rules, once) for job in chosen]
    ids, queues = zip(*created, strict=True)
    return Submitted(jobs=ids, queues=tuple(dict.fromkeys(queues)))


def _create(
    session: Session, principal: Principal, proposed: ProposedJob, rules: Rules, once: str | None
) -> tuple[UUID, str]:
    spec, key = _read(_JOB, proposed.spec), _key(once, proposed.spec_digest)
    most = rules.most_queued
    job = jobs.create(session, principal, spec, idempotency_key=key, most_queued=most).job
    return job.id, job.queue.name


def _key(once: str | None, what: str) -> str | None:
    return None if once is None else f"recommended-{once}-{what}"


def _read(adapter: TypeAdapter[Any], spec: dict[str, object]) -> Any:  # Any: what the adapter reads
    """Parse a spec from JSON, where strict mode accepts lists for tuples."""
    return adapter.validate_json(to_json(spec), strict=True)
