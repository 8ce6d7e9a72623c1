"""Jobs: create, preview, look at and cancel."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.orm import Session

from adaptlab.errors import AdaptlabError, InvalidSpec, Problem
from adaptlab.specs.resolve import BaseModelFacts, resolve
from adaptlab.specs.resolve_theory import measured_base, resolve_theory
from adaptlab.specs.resolved import (
    Resolved,
    ResolvedAdapt,
    ResolvedImport,
    ResolvedPretrain,
    ResolvedTheory,
    spec_digest,
    write_resolved,
)
from adaptlab.specs.spec import AdaptSpec, AnySpec, BaseSpec, ImportSpec, TheorySpec
from adaptlab_answers.jobs import JobView, Preview
from adaptlab_db.job_states import TERMINAL_STATES, UNCLAIMED_STATES, JobState
from adaptlab_db.tables import Job
from adaptlab_services.errors import Conflict, NotFound
from adaptlab_services.jobs import estimates
from adaptlab_services.jobs.job_rows import NewJob, WrittenJob, insert_job
from adaptlab_services.jobs.job_views import columns_of, job_rows, job_view, queue_position
from adaptlab_services.lifecycle import adaptations, workers
from adaptlab_services.lifecycle.transitions import append_event, transition
from adaptlab_services.limits import limits, quotas, sizes
from adaptlab_services.models import base_models, datasets
from adaptlab_services.models.model_folders import NO_ROOTS, ModelRoots, resolved_import
from adaptlab_services.people import access, idempotency
from adaptlab_services.people.audit import Entry
from adaptlab_services.people.tokens import Principal

Spec = AnySpec
_Base = ResolvedPretrain | ResolvedImport


@dataclass(frozen=True, slots=True)
class Created:
    """The answer to a creation; `queues` have new work and are rung after the commit."""

    job: JobView
    replayed: bool
    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Made:
    """A job as it was written, the queues that have new work, and what makes its base model."""

    written: WrittenJob
    queues: tuple[str, ...]
    base_job_id: UUID | None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The answer to a cancellation; `decided` is false while a worker has yet to stop."""

    job: JobView
    decided: bool


def create(
    session: Session,
    principal: Principal,
    spec: Spec,
    *,
    idempotency_key: str | None = None,
    roots: ModelRoots = NO_ROOTS,
    most_queued: int | None = None,
    entry: Entry | None = None,
) -> Created:
    """Store a job, and the job of an inline base model that nobody has made yet.

    `roots` are where model folders may lie, and `most_queued` is how many jobs one owner may have
    waiting or queued. The `entry` of the audit log is written with the job, and not for one that
    was made before. Raises `InvalidSpec` for a spec that cannot be run, `Conflict` for a taken
    name, `IdempotencyMismatch` for a key that was used with another spec, `LimitReached`, and
    `Forbidden` for who may not submit to the project.
    """
    access.to_create(session)
    if idempotency_key is None:
        made = _create(session, principal, spec, roots, entry)
    else:
        digest = idempotency.request_digest(session, spec)
        earlier = idempotency.answered(session, principal.user_id, idempotency_key, digest)
        if earlier is not None:
            return Created(get(session, earlier), replayed=True, queues=())
        made = _create(session, principal, spec, roots, entry)
        idempotency.remember(session, principal.user_id, idempotency_key, digest, made.written.id)
    limits.check_queued(session, principal.user_id, most_queued)
    quotas.check_jobs(session, principal.user_id, _queues_of(spec), made.written.allowance)
    project = access.project_name(session)
    view = made.written.view(principal.name, project, made.base_job_id)
    return Created(view, replayed=False, queues=made.queues)


def preview(session: Session, spec: Spec, *, roots: ModelRoots = NO_ROOTS) -> Preview:
    """Run every check of a creation and say what would become of the spec."""
    resolved = _resolved(session, spec, roots)
    (found,) = _previews(session, [(spec, resolved)])
    base = _unmade_base(session, spec, roots)
    if base is None:
        return found
    estimate = estimates.estimate(session, *base)
    return found.model_copy(update={"base_estimate": estimate})


def preview_each(session: Session, specs: Sequence[AdaptSpec]) -> list[Preview | AdaptlabError]:
    """The previews of adaptations of named base models, or what is wrong with each.

    More of them cost no more statements, unless they name more base models or datasets.
    """
    bases: dict[str, BaseModelFacts] = {}
    resolved: list[ResolvedAdapt | AdaptlabError] = []
    for spec in specs:
        name = str(spec.base_model)
        try:
            if name not in bases:
                bases[name] = base_models.facts(session, name)
            resolved.append(_resolved_adaptation(session, spec, bases[name]))
        except AdaptlabError as error:
            resolved.append(error)
    pairs = zip(specs, resolved, strict=True)
    sound = [(spec, one) for spec, one in pairs if not isinstance(one, AdaptlabError)]
    found = iter(_previews(session, sound))
    return [one if isinstance(one, AdaptlabError) else next(found) for one in resolved]


def get(session: Session, job_id: UUID) -> JobView:
    """One job."""
    found = columns_of(session.execute(job_rows().where(Job.id == job_id)))
    if not found:
        raise NotFound("job", job_id)
    return job_view(found[0], queue_position(session, found[0]))


def cancel(session: Session, principal: Principal, job_id: UUID) -> Cancelled:
    """Cancel a job at once, or ask the worker that runs it to stop.

    A job that has ended stays as it is, whatever its end; repeating the call changes nothing.
    Raises `Forbidden` for who may not, being neither its owner nor an operator.
    """
    place = select(Job.owner_id, Job.project_id).where(Job.id == job_id)
    found = session.execute(place).one_or_none()
    if found is None:
        raise NotFound("job", job_id)
    access.check_change(session, found.owner_id, found.project_id)
    return stop(session, principal, job_id)


def stop(session: Session, principal: Principal, job_id: UUID) -> Cancelled:
    """Cancel a job, or ask its worker to stop, whoever it is of."""
    # The lock decides a race with a worker that claims or finishes: one of the two is first.
    row = session.execute(
        select(Job.state, Job.cancel_requested_at).where(Job.id == job_id).with_for_update()
    ).one()
    if row.state == "running":
        if row.cancel_requested_at is None:
            _request_stop(session, principal, job_id)
        return Cancelled(get(session, job_id), decided=False)
    if row.state not in TERMINAL_STATES:
        transition(
            session,
            job_id,
            to="cancelled",
            from_states=UNCLAIMED_STATES,
            reason="cancelled_by_user",
            data={"by": principal.name},
        )
    return Cancelled(get(session, job_id), decided=True)


def _request_stop(session: Session, principal: Principal, job_id: UUID) -> None:
    session.execute(
        update(Job).where(Job.id == job_id).values(cancel_requested_at=func.clock_timestamp())
    )
    append_event(session, job_id, "cancel_requested", {"by": principal.name})


def _create(
    session: Session, principal: Principal, spec: Spec, roots: ModelRoots, entry: Entry | None
) -> _Made:
    if isinstance(spec, TheorySpec):
        return _create_theory(session, principal, spec, entry)
    if not isinstance(spec, AdaptSpec):
        resolved = resolved_base(session, spec, roots)
        written = _insert(session, principal, spec, resolved, "queued", entry=entry)
        base_models.register(session, spec.name, written.id)
        return _Made(written, written.wakes, None)
    name, queues = spec.base_model, ()
    if not isinstance(name, str):
        name, queues = base_of(session, principal, name, roots)
    base = base_models.remembered(session, name)
    resolved = _resolved_adaptation(session, spec, base.facts)
    ready = base.job_id if base.is_ready else None
    state: JobState = "waiting" if ready is None else "queued"
    written = _insert(session, principal, spec, resolved, state, ready, entry)
    if not written.has_base:
        base_models.forget(session, name)
        raise Conflict(
            f"The base model {name!r} has changed because the database was restored or "
            "replaced. Nothing was created. Send the request again."
        )
    return _Made(written, (*queues, *written.wakes), base.job_id)


def _create_theory(
    session: Session, principal: Principal, spec: TheorySpec, entry: Entry | None
) -> _Made:
    resolved = _resolved_theory(session, spec)
    name = resolved.base_model
    base = None if name is None else base_models.usable_base(session, name)
    ready = base is None or base.is_ready
    ready = ready and adaptations.are_ready(session, spec.adaptations)
    state: JobState = "queued" if ready else "waiting"
    written = _insert(session, principal, spec, resolved, state, entry=entry)
    return _Made(written, written.wakes, None if base is None else base.job_id)


def _resolved_theory(session: Session, spec: TheorySpec) -> ResolvedTheory:
    adaptations.hold_base_models(session, spec.adaptations)
    measured = adaptations.facts(session, spec.adaptations)
    base = measured_base(spec, measured)
    known = None if base is None else base_models.facts(session, base)
    return sizes.checked(session, resolve_theory(spec, known, measured))


def base_of(
    session: Session, principal: Principal, spec: BaseSpec, roots: ModelRoots = NO_ROOTS
) -> tuple[str, tuple[str, ...]]:
    """The name of the inline base model, and the queue in which its job now waits, if new."""
    resolved = _resolved_inline(session, spec, roots)
    digest = spec_digest(resolved)
    if (known := base_models.equal_to(session, digest, spec.name)) is not None:
        return known, ()
    try:
        with session.begin_nested():
            written = _insert(session, principal, spec, resolved, "queued")
            base_models.register(session, spec.name, written.id)
    except Conflict:
        # Somebody may have created the same model between the look and the attempt.
        if (known := base_models.equal_to(session, digest, spec.name)) is not None:
            return known, ()
        raise
    return spec.name, (spec.resources.queue,)


def facts_without_creating(
    session: Session, base: str | BaseSpec, roots: ModelRoots = NO_ROOTS
) -> BaseModelFacts:
    """What is known of a base model, by name or given inline, which is not made here."""
    if isinstance(base, str):
        return base_models.facts(session, base)
    resolved = _resolved_inline(session, base, roots)
    digest = spec_digest(resolved)
    if (known := base_models.equal_to(session, digest, base.name)) is not None:
        return base_models.facts(session, known)
    base_models.check_free(session, base.name)
    return base_models.resolved_facts(base.name, digest, resolved)


def _resolved(session: Session, spec: Spec, roots: ModelRoots) -> Resolved:
    """The job as it would run; nothing is made for it."""
    if isinstance(spec, AdaptSpec):
        base = facts_without_creating(session, spec.base_model, roots)
        return _resolved_adaptation(session, spec, base)
    if isinstance(spec, TheorySpec):
        return _resolved_theory(session, spec)
    base_models.check_free(session, spec.name)
    return resolved_base(session, spec, roots)


def _resolved_adaptation(session: Session, spec: AdaptSpec, base: BaseModelFacts) -> ResolvedAdapt:
    return sizes.checked(session, resolve(spec, base, datasets.known(session)))


def _previews(session: Session, resolved: Sequence[tuple[Spec, Resolved]]) -> list[Preview]:
    """The previews without estimates of base models; more of them cost no more statements."""
    if not resolved:
        return []
    documents = [write_resolved(one) for _, one in resolved]
    digests = [spec_digest(one) for one in documents]
    times = estimates.estimate_each(session, [(one, s.resources.queue) for s, one in resolved])
    served, done = workers.live_queues(session), _done_before(session, digests)
    return [
        Preview(
            kind=spec.kind,
            resolved_spec=document,
            budget=one.budget,
            spec_digest=digest,
            estimate=estimate,
            base_estimate=None,
            warnings=(
                *_queue_warnings(_queues_of(spec), served),
                *estimates.warnings(estimate, spec.resources.max_seconds),
                *_equal_job_warnings(done.get(digest)),
            ),
        )
        for (spec, one), document, digest, estimate in zip(
            resolved, documents, digests, times, strict=True
        )
    ]


def _unmade_base(session: Session, spec: Spec, roots: ModelRoots) -> tuple[_Base, str] | None:
    """The job of an inline base model that nobody has made yet, and its queue."""
    if not isinstance(spec, AdaptSpec) or isinstance(spec.base_model, str):
        return None
    base, resolved = spec.base_model, _resolved_inline(session, spec.base_model, roots)
    if base_models.equal_to(session, spec_digest(resolved), base.name) is not None:
        return None
    return resolved, base.resources.queue


def resolved_base(session: Session, spec: BaseSpec, roots: ModelRoots) -> _Base:
    """The job that makes a base model, as it will run; raises `InvalidSpec`."""
    known = datasets.known(session)
    if isinstance(spec, ImportSpec):
        return sizes.checked(session, resolved_import(spec, roots, known))
    return sizes.checked(session, resolve(spec, None, known))


def _resolved_inline(session: Session, spec: BaseSpec, roots: ModelRoots) -> _Base:
    try:
        return resolved_base(session, spec, roots)
    except InvalidSpec as error:
        inside = (
            Problem(f"/base_model{p.pointer}", p.code, p.detail, p.allowed, p.nearest)
            for p in error.problems
        )
        raise InvalidSpec(*inside) from error


def _insert(
    session: Session,
    principal: Principal,
    spec: Spec,
    resolved: Resolved,
    state: JobState,
    ready_base: UUID | None = None,
    entry: Entry | None = None,
) -> WrittenJob:
    assert state in ("waiting", "queued")
    document = write_resolved(resolved)
    new = NewJob(spec, document, spec_digest(document), state, ready_base)
    return insert_job(session, principal, new, entry)


def _queues_of(spec: Spec) -> set[str]:
    queues = {spec.resources.queue}
    if isinstance(spec, AdaptSpec) and not isinstance(spec.base_model, str):
        queues.add(spec.base_model.resources.queue)
    return queues


def queue_warnings(session: Session, queues: set[str]) -> tuple[str, ...]:
    """What to say of queues in which jobs would wait, because no live worker serves them."""
    return _queue_warnings(queues, workers.live_queues(session))


def _queue_warnings(queues: set[str], served: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        f"No live worker serves the queue {queue!r}. The job would wait until one does."
        for queue in sorted(queues - set(served))
    )


def _done_before(session: Session, digests: Sequence[str]) -> dict[str, UUID]:
    """The first job of each digest that has succeeded in the request's project."""
    rows = session.execute(
        select(Job.spec_digest, Job.id)
        .where(Job.spec_digest.in_(digests), Job.state == "succeeded")
        .where(Job.project_id == access.project_of(session))
        .order_by(Job.spec_digest, Job.created_at)
        .ext(distinct_on(Job.spec_digest))
    )
    return {row.spec_digest: row.id for row in rows}


def _equal_job_warnings(done: UUID | None) -> tuple[str, ...]:
    if done is None:
        return ()
    return (f"Job {done} has already run exactly this spec. See its results.",)
