"""Facts and stored tensors of the adaptations that theory checks measure."""

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.theory_check import MeasuredAdaptation
from adaptlab.specs.resolve_theory import adaptation_of
from adaptlab.specs.resolved import ResolvedAdapt, readable
from adaptlab.specs.spec import ResolvedSpec
from adaptlab_db.job_states import LOST_STATES
from adaptlab_db.tables import BaseModel, Job
from adaptlab_services.people import access


def facts(
    session: Session, asked: Sequence[UUID], pointer: str = "/adaptation"
) -> list[MeasuredAdaptation]:
    """Return the facts of jobs' adaptations, in the order of `asked`.

    `asked` has the ids of the jobs. Raises `InvalidSpec` for a job that does not exist, is no
    adaptation, or failed or was cancelled. The jobs stay locked until the unit of work ends, so
    that none can succeed before a job that waits for it is inserted.
    """
    rows = session.execute(
        select(Job)
        .where(Job.id.in_(asked), Job.project_id == access.project_of(session))
        .order_by(Job.id)
        .with_for_update(read=True)
    ).scalars()
    jobs = {job.id: job for job in rows}
    problems = [problem for id_ in asked for problem in _problems(id_, jobs.get(id_), pointer)]
    if problems:
        raise InvalidSpec(*problems)
    in_order = [jobs[id_] for id_ in asked]
    return [stored(job.id, job.spec_digest, job.resolved_spec, pointer) for job in in_order]


def stored(
    job: UUID, digest: str, document: Mapping[str, object], pointer: str = "/adaptation"
) -> MeasuredAdaptation:
    """Return the facts of the adaptation of a job from its resolved spec.

    The job is of kind `adapt`. Raises `InvalidSpec` if its plug-ins are not installed.
    """
    try:
        resolved = readable(ResolvedSpec.model_validate(document))
    except InvalidSpec as error:
        detail = f"The job {job} cannot be measured by this server: {error.problems[0].detail}"
        raise InvalidSpec(Problem(pointer, "adaptation_unread", detail)) from error
    assert isinstance(resolved, ResolvedAdapt)
    if resolved.quantises:
        detail = (
            f"The job {job} adapted its base model in four bits (nf4). Theory checks measure base "
            "models as they are stored. Adapt it with `base_weights: stored`."
        )
        raise InvalidSpec(Problem(pointer, "adapted_in_four_bits", detail))
    return adaptation_of(job, digest, resolved)


def hold_base_models(session: Session, asked: Sequence[UUID]) -> None:
    """Lock the jobs of these adaptations' base models.

    The locks are held until the unit of work ends. Call this before locking the adaptations. A
    transaction that ends a base model's job locks it first and then the adaptations that wait for
    it, so the other order could deadlock.
    """
    names = session.scalars(select(Job.base_model).where(Job.id.in_(asked))).all()
    session.execute(
        select(Job.id)
        .join(BaseModel, BaseModel.job_id == Job.id)
        .where(BaseModel.name.in_(names))
        .order_by(Job.id)
        .with_for_update(read=True, of=Job)
    )


def are_ready(session: Session, asked: Sequence[UUID]) -> bool:
    """Return True if the trained tensors of all these adaptations are there."""
    states = session.scalars(select(Job.state).where(Job.id.in_(asked)))
    return all(state == "succeeded" for state in states)


def _problems(asked: UUID, job: Job | None, pointer: str) -> Iterator[Problem]:
    if job is None:
        detail = f"There is no job {asked}. List the jobs of the kind adapt to see which exist."
        yield Problem(pointer, "unknown_job", detail)
    elif job.kind != "adapt":
        detail = f"The job {asked} is of the kind {job.kind}. Name a job of the kind adapt."
        yield Problem(pointer, "not_an_adaptation", detail)
    elif job.state in LOST_STATES:
        how = "failed" if job.state == "failed" else "was cancelled"
        detail = (
            f"The job {asked} {how}, so there is nothing to measure. Retry it and name the new job."
        )
        yield Problem(pointer, "adaptation_failed", detail)
