"""Submitting what a recommendation proposes: it is asked again, so that nobody sends its jobs."""

from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from pydantic import TypeAdapter
from pydantic_core import to_json
from sqlalchemy.orm import Session

from adaptlab.specs.spec import AdaptSpec
from adaptlab.studies.study import StudySpec
from adaptlab_answers.recommendations import ProposedJob
from adaptlab_services.errors import Conflict, IdempotencyMismatch
from adaptlab_services.jobs import jobs
from adaptlab_services.people.tokens import Principal
from adaptlab_services.recommendations import recommendations
from adaptlab_services.recommendations.recommendation_views import RecommendationQuestion
from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Rules

Wanted = Literal["all", "study"] | str
"""All jobs, the first study, or the spec digest of one job."""
GONE = "Stored results have changed, and this is no longer proposed; see the recommendation again."
_STUDY: TypeAdapter[StudySpec] = TypeAdapter(StudySpec)
_JOB: TypeAdapter[AdaptSpec] = TypeAdapter(AdaptSpec)


@dataclass(frozen=True, slots=True)
class Submitted:
    """What was made, and the queues with new work."""

    jobs: tuple[UUID, ...] = ()
    study: str | None = None
    queues: tuple[str, ...] = ()


def submit(
    session: Session,
    principal: Principal,
    question: RecommendationQuestion,
    rules: Rules,
    wanted: Wanted,
    once: str | None = None,
) -> Submitted:
    """Make the jobs or the study that the answer to a question proposes.

    What is asked for again under the same `once` is not made again. Raises `InvalidSpec` for a
    question that makes no sense, `Conflict` where what is wanted is not proposed (any more),
    `LimitReached` and `Forbidden`.
    """
    found = recommendations.recommend(session, question, rules)
    if wanted == "study":
        if found.first_study is None:
            raise Conflict(GONE)
        spec = _read(_STUDY, found.first_study.spec)
        try:
            key = _key(once, "study")
            made = studies.create(session, principal, spec, rules, idempotency_key=key)
        except IdempotencyMismatch as error:  # that study is made, and another name proposed now
            raise Conflict(GONE) from error
        return Submitted(study=made.study.name, queues=made.queues)
    chosen = [one for one in found.jobs if wanted in ("all", one.spec_digest)]
    if not chosen:
        raise Conflict(GONE)
    created = [_create(session, principal, one, rules, once) for one in chosen]
    ids, queues = zip(*created, strict=True)
    return Submitted(jobs=ids, queues=tuple(dict.fromkeys(queues)))


def _create(
    session: Session, principal: Principal, one: ProposedJob, rules: Rules, once: str | None
) -> tuple[UUID, str]:
    spec, key = _read(_JOB, one.spec), _key(once, one.spec_digest)
    most = rules.most_queued
    job = jobs.create(session, principal, spec, idempotency_key=key, most_queued=most).job
    return job.id, job.queue.name


def _key(once: str | None, what: str) -> str | None:
    return None if once is None else f"recommended-{once}-{what}"


def _read(adapter: TypeAdapter[Any], spec: dict[str, object]) -> Any:  # Any: what the adapter reads
    """A spec from its JSON, in which alone strict pydantic takes a list for a tuple."""
    return adapter.validate_json(to_json(spec), strict=True)
