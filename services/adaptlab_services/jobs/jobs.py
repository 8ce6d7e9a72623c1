"""Jobs: create, preview, get and cancel."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sqlalchemy import (
    func,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.orm import Session

from adaptlab.errors import AdaptlabError, InvalidSpec, Problem
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.evaluation_warnings import evaluation_warnings
from adaptlab.specs.job_tasks import placed_tasks
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolve_theory import measured_base, resolve_theory
from adaptlab.specs.resolved import (
    Resolved,
    ResolvedAdapt,
    ResolvedImport,
    ResolvedPretrain,
    ResolvedTheory,
    datasets_of,
    spec_digest,
    write_resolved,
)
from adaptlab.specs.spec import (
    AdaptSpec,
    AnySpec,
    BaseSpec,
    ImportSpec,
    PretrainSpec,
    TheorySpec,
)
from adaptlab.values import Value
from adaptlab_answers.jobs import JobView, Preview
from adaptlab_db.job_states import TERMINAL_STATES, UNCLAIMED_STATES
from adaptlab_db.session import long_pause
from adaptlab_db.tables import Job
from adaptlab_services.errors import Absent, StateConflict
from adaptlab_services.jobs import estimates, gpu_needs, slow_precision, transit_sizes
from adaptlab_services.jobs.gpu_needs import NO_NEEDS, GpuNeeds
from adaptlab_services.jobs.rows import NewJob, insert_job
from adaptlab_services.jobs.views import (
    columns_of,
    current_view,
    job_rows,
    new_job_view,
)
from adaptlab_services.lifecycle import adaptations, workers
from adaptlab_services.lifecycle.transitions import append_event, transition
from adaptlab_services.limits import limits, quotas, sizes
from adaptlab_services.models import base_models, coming_folders, datasets, folder_changes
from adaptlab_services.models.adapter_folders import resolved_adapter
from adaptlab_services.models.dataset_deletion import check_present
from adaptlab_services.models.dataset_origins import with_origins
from adaptlab_services.models.model_folders import NO_ROOTS, ModelRoots, resolved_import
from adaptlab_services.models.roots import LONGEST_READING
from adaptlab_services.models.token_checks import check_tokens
from adaptlab_services.people import access, audit, idempotency
from adaptlab_services.people.audit import Entry
from adaptlab_services.people.tokens import Principal

Spec = AnySpec
ResolvedBase = ResolvedPretrain | ResolvedImport


@dataclass(frozen=True, slots=True)
class Created:
    """The answer to a creation.

    `queues` have new work, and are rung after the commit.
    """

    job: JobView
    replayed: bool
    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Inserted:
    """The row of a new job, queues with new work, and the base model's job."""

    job: dict[str, Any]  # by name of the column, of any type
    queues: tuple[str, ...]
    base_job_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class BasePlan:
    """A base model that a job would adapt, before anything is created.

    Attributes:
        facts: what resolving an adaptation needs.
        job: the resolved job that would create it, and its queue; None if the model exists or is
            being created.
    """

    facts: BaseModelFacts
    job: tuple[ResolvedBase, str] | None = None


@dataclass(frozen=True, slots=True)
class InlineBase:
    """The name of an inline base model, and the queue of its job.

    A new job that waits for a fetch has no queue yet.
    """

    name: str
    is_new: bool = False
    queues: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The answer to a cancellation.

    `decided` is false while a worker has yet to stop.
    """

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
    asked: Value | None = None,
) -> Created:
    """Create a job, and the job of its inline base model if that is new.

    A base model is new if it does not exist yet. `roots` are the folders that may contain model
    folders, and `most_queued` is the number of jobs that one owner can have waiting or queued. The
    `entry` of the audit log is written with a new job, not when an earlier answer is repeated.
    `asked` is the request to which the idempotency key belongs, if it is not the spec.
    Raises `InvalidSpec` for a spec that cannot be run, `StateConflict` for a taken name,
    `IdempotencyMismatch` for a key that was used with another spec, `LimitReached`, `QuotaReached`,
    and `Forbidden` for callers who may not submit to the project.
    """
    access.to_create(session)
    digest = None
    if idempotency_key is not None:
        digest = idempotency.request_digest(session, asked or spec)
        earlier = idempotency.answered(session, principal.user_id, idempotency_key, digest)
        if earlier is not None:
            return Created(get(session, earlier), replayed=True, queues=())
    new = _create(session, principal, spec, roots)
    if idempotency_key is not None and digest is not None:
        idempotency.remember(session, principal.user_id, idempotency_key, digest, new.job["id"])
    if entry is not None:
        audit.record(session, replace(entry, object=str(new.job["id"])))
    limits.check_queued(session, principal.user_id, most_queued)
    quotas.check_jobs(session, principal.user_id, _queues_of(spec))
    project = access.project_name(session)
    view = new_job_view(session, new.job, principal.name, project, new.base_job_id)
    return Created(view, replayed=False, queues=new.queues)


def preview(session: Session, spec: Spec, *, roots: ModelRoots = NO_ROOTS) -> Preview:
    """Check a spec as for a creation, and return the job that it would become."""
    base, warnings = None, ()
    if isinstance(spec, AdaptSpec):
        base = base_plan(session, spec.base_model, roots)
        creator = None if base.job is None else base.job[0]
        facts = tuple(other.facts for other in other_bases(session, spec))
        resolved: Resolved = _resolved_adaptation(session, spec, base.facts, roots, creator, facts)
        warnings = _check_texts(session, spec, resolved, base.facts, roots)
    elif isinstance(spec, TheorySpec):
        resolved = _resolved_theory(session, spec)
    else:
        base_models.check_free(session, spec.name)
        resolved = resolved_base(session, spec, roots)
    (job,) = _previews(session, [(spec, resolved)])
    job = job.model_copy(update={"warnings": (*job.warnings, *warnings)})
    if base is None or base.job is None:
        return job
    return job.model_copy(update={"base_estimate": estimates.estimate(session, *base.job)})


def preview_each(session: Session, specs: Sequence[AdaptSpec]) -> list[Preview | AdaptlabError]:
    """Preview adaptations of named base models.

    Errors take the place of invalid specs' previews. More specs need no more statements, unless
    they name more base models or datasets.
    """
    bases: dict[str, BaseModelFacts] = {}
    resolved: list[ResolvedAdapt | AdaptlabError] = []
    for spec in specs:
        name = str(spec.base_model)
        try:
            if name not in bases:
                bases[name] = base_models.facts(session, name)
            others = tuple(other.facts for other in other_bases(session, spec))
            resolved.append(_resolved_adaptation(session, spec, bases[name], others=others))
        except AdaptlabError as error:
            resolved.append(error)
    pairs = zip(specs, resolved, strict=True)
    valid = [(spec, result) for spec, result in pairs if not isinstance(result, AdaptlabError)]
    previews = iter(_previews(session, valid))
    return [result if isinstance(result, AdaptlabError) else next(previews) for result in resolved]


def get(session: Session, job_id: UUID) -> JobView:
    """Return one job; raises `Absent`."""
    rows = columns_of(session.execute(job_rows().where(Job.id == job_id)))
    if not rows:
        raise Absent("job", job_id)
    return current_view(session, rows[0])


def cancel(session: Session, principal: Principal, job_id: UUID) -> Cancelled:
    """Cancel a job at once, or ask the worker that runs it to stop.

    A job that has ended does not change, and neither does a repeated call. Raises
    `Absent`, and `Forbidden` for callers who are neither the job's owner nor an operator.
    """
    query = select(Job.owner_id, Job.project_id).where(Job.id == job_id)
    job = session.execute(query).one_or_none()
    if job is None:
        raise Absent("job", job_id)
    access.check_change(session, job.owner_id, job.project_id)
    return stop(session, principal, job_id)


def stop(session: Session, principal: Principal, job_id: UUID) -> Cancelled:
    """Cancel a job, or ask its worker to stop.

    The caller's rights are not checked.
    """
    # The lock decides races with a worker that claims or finishes the job.
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


def _create(session: Session, principal: Principal, spec: Spec, roots: ModelRoots) -> _Inserted:
    if isinstance(spec, AdaptSpec):
        return _create_adaptation(session, principal, spec, roots)
    if isinstance(spec, TheorySpec):
        return _create_theory(session, principal, spec)
    return _create_base(session, principal, spec, resolved_base(session, spec, roots))


def _create_base(
    session: Session, principal: Principal, spec: BaseSpec, resolved: ResolvedBase
) -> _Inserted:
    """Create the job of a base model, and begin the fetch that it waits for."""
    folder = resolved.model_folder if isinstance(resolved, ResolvedImport) else None
    is_ready = folder is None or not folder.is_coming
    new = _insert(session, principal, spec, resolved, is_ready=is_ready)
    base_models.register(session, spec.name, new.job["id"])
    if folder is not None and not is_ready:
        coming_folders.begin(session, principal, new.job["id"], folder)
    return new


def _create_adaptation(
    session: Session, principal: Principal, spec: AdaptSpec, roots: ModelRoots
) -> _Inserted:
    name, queues = spec.base_model, ()
    if not isinstance(name, str):
        inline = base_of(session, principal, name, roots)
        name, queues = inline.name, inline.queues
    base = base_models.remembered(session, name)
    others = other_bases(session, spec)
    facts = tuple(other.facts for other in others)
    resolved = _resolved_adaptation(session, spec, base.facts, roots, others=facts)
    is_ready = base.is_ready and all(other.is_ready for other in others)
    new = _insert(session, principal, spec, resolved, is_ready=is_ready)
    if base.is_ready and not base_models.is_still_ready(session, name, base.job_id):
        base_models.forget(session, name)
        base_models.usable_base(session, name)  # raises the error for one that was deleted
        raise StateConflict(
            f"The base model {name!r} has changed because the database was restored or "
            "replaced. Nothing was created. Send the request again."
        )
    return _Inserted(new.job, (*queues, *new.queues), base.job_id)


def other_bases(session: Session, spec: AdaptSpec) -> tuple[base_models.UsableBase, ...]:
    """Return the other base models on which a job is evaluated.

    Raises `InvalidSpec` for one that does not exist, or failed.
    """
    return tuple(
        base_models.usable_base(session, name, f"/evaluation/base_models/{index}")
        for index, name in enumerate(spec.evaluation.base_models)
    )


def _create_theory(session: Session, principal: Principal, spec: TheorySpec) -> _Inserted:
    resolved = _resolved_theory(session, spec)
    name = resolved.base_model
    base = None if name is None else base_models.usable_base(session, name)
    is_ready = base is None or base.is_ready
    is_ready = is_ready and adaptations.are_ready(session, spec.adaptations)
    new = _insert(session, principal, spec, resolved, is_ready=is_ready)
    return replace(new, base_job_id=None if base is None else base.job_id)


def _resolved_theory(session: Session, spec: TheorySpec) -> ResolvedTheory:
    adaptations.hold_base_models(session, spec.adaptations)
    measured = adaptations.facts(session, spec.adaptations)
    base = measured_base(spec, measured)
    facts = None if base is None else base_models.facts(session, base)
    known = datasets.known(session)
    resolved = sizes.checked(session, resolve_theory(spec, facts, measured, known))
    check_present(session, datasets_of(resolved), "/adaptations")
    return resolved


def base_of(
    session: Session, principal: Principal, spec: BaseSpec, roots: ModelRoots = NO_ROOTS
) -> InlineBase:
    """Return an inline base model, whose job is created if it is new."""
    resolved = _resolved_inline(session, spec, roots)
    digest = spec_digest(resolved)
    if (name := base_models.equal_to(session, digest, spec.name)) is not None:
        return InlineBase(name)
    try:
        with session.begin_nested():
            new = _create_base(session, principal, spec, resolved)
    except StateConflict:
        # Somebody else may have created the same model since the lookup.
        if (name := base_models.equal_to(session, digest, spec.name)) is not None:
            return InlineBase(name)
        raise
    return InlineBase(spec.name, True, new.queues)


def base_plan(session: Session, base: str | BaseSpec, roots: ModelRoots = NO_ROOTS) -> BasePlan:
    """Look up a base model that is named or given inline; creates nothing."""
    if isinstance(base, str):
        return BasePlan(base_models.facts(session, base))
    resolved = _resolved_inline(session, base, roots)
    digest = spec_digest(resolved)
    if (name := base_models.equal_to(session, digest, base.name)) is not None:
        return BasePlan(base_models.facts(session, name))
    base_models.check_free(session, base.name)
    facts = base_models.resolved_facts(base.name, digest, resolved)
    return BasePlan(facts, (resolved, base.resources.queue))


def _resolved_adaptation(
    session: Session,
    spec: AdaptSpec,
    base: BaseModelFacts,
    roots: ModelRoots = NO_ROOTS,
    creator: ResolvedBase | None = None,
    others: Sequence[BaseModelFacts] = (),
) -> ResolvedAdapt:
    """Resolve an adaptation.

    `creator` is the job of a base model that does not exist yet, and `others` are the base models
    on which it is evaluated as well.
    """
    if creator is None:
        folder_changes.check_base(session, base, roots, "/base_model")
    for index, other in enumerate(others):
        pointer = f"/evaluation/base_models/{index}"
        folder_changes.check_base(session, other, roots, pointer)
    if spec.adapter is not None:
        resolved = resolved_adapter(session, spec, base, roots, creator, others)
    else:
        resolved = resolve(spec, base, datasets.known(session), others=others)
    sizes.checked(session, resolved)
    gpu_needs.check_each(session, [(resolved, spec.resources.queue)])
    _check_texts(session, spec, resolved, base, roots)
    for index, other in enumerate(others):
        _check_texts_elsewhere(session, spec, resolved, other, index, roots)
    return resolved


def _check_texts_elsewhere(
    session: Session,
    spec: AdaptSpec,
    resolved: ResolvedAdapt,
    other: BaseModelFacts,
    index: int,
    roots: ModelRoots,
) -> None:
    """Raise `InvalidSpec` if another base model cannot read the texts."""
    try:
        _check_texts(session, spec, resolved, other, roots)
    except InvalidSpec as error:
        pointer = f"/evaluation/base_models/{index}"
        raise InvalidSpec(
            *(
                Problem(pointer, problem.code, f"On {other.name}: {problem.detail}")
                for problem in error.problems
            )
        ) from error


def _check_texts(
    session: Session,
    spec: AdaptSpec | PretrainSpec,
    resolved: ResolvedAdapt | ResolvedPretrain,
    base: BaseModelFacts | None,
    roots: ModelRoots,
) -> tuple[str, ...]:
    """Return warnings about texts.

    Raises `InvalidSpec` if the worker would refuse one.
    """
    placed = placed_tasks(spec.evaluation, datasets.known(session))
    return check_tokens(session, base, resolved, placed, roots)


def _previews(session: Session, resolved: Sequence[tuple[Spec, Resolved]]) -> list[Preview]:
    """Preview jobs, without estimates of base models.

    More jobs need no more statements.
    """
    if not resolved:
        return []
    documents = with_origins(session, [write_resolved(job) for _, job in resolved])
    digests = [spec_digest(document) for document in documents]
    times = estimates.estimate_each(session, [(job, s.resources.queue) for s, job in resolved])
    served, done = workers.live_queues(session), _done_before(session, digests)
    needs = [_gpu_needs(spec) for spec, _ in resolved]
    is_needed = any(map(any, needs))
    without_gpu = workers.queues_without_gpu(session) if is_needed else frozenset[str]()
    return [
        Preview(
            kind=spec.kind,
            resolved_spec=document,
            budget=job.budget,
            spec_digest=digest,
            estimate=estimate,
            base_estimate=None,
            warnings=(
                *_queue_warnings(_queues_of(spec), served),
                *needed.warnings(frozenset(served), without_gpu),
                *slow_precision.warnings(session, [(job, spec.resources.queue)]),
                *transit_sizes.warnings(session, [(job, spec.resources.queue)]),
                *estimates.warnings(estimate, spec.resources.max_seconds),
                *_evaluation_warnings(spec, job),
                *_equal_job_warnings(done.get(digest)),
            ),
        )
        for (spec, job), document, digest, estimate, needed in zip(
            resolved, documents, digests, times, needs, strict=True
        )
    ]


def _evaluation_warnings(spec: Spec, job: Resolved) -> tuple[str, ...]:
    return () if isinstance(spec, TheorySpec) else evaluation_warnings(spec.evaluation, (job,))


def resolved_base(session: Session, spec: BaseSpec, roots: ModelRoots) -> ResolvedBase:
    """Resolve the job that creates a base model; raises `InvalidSpec`."""
    sets = datasets.known(session)
    if isinstance(spec, ImportSpec):
        with long_pause(session, LONGEST_READING):
            found = resolved_import(session, spec, roots, sets)
        return sizes.checked(session, found)
    resolved = sizes.checked(session, resolve(spec, None, sets))
    _check_texts(session, spec, resolved, None, roots)
    return resolved


def _resolved_inline(session: Session, spec: BaseSpec, roots: ModelRoots) -> ResolvedBase:
    try:
        return resolved_base(session, spec, roots)
    except InvalidSpec as error:
        inside = (
            Problem(f"/base_model{p.pointer}", p.code, p.detail, p.allowed, p.nearest)
            for p in error.problems
        )
        raise InvalidSpec(*inside) from error


def _insert(
    session: Session, principal: Principal, spec: Spec, resolved: Resolved, *, is_ready: bool
) -> _Inserted:
    document = write_resolved(resolved)
    new = NewJob(spec, document, spec_digest(document), is_ready)
    job = insert_job(session, principal, new)
    return _Inserted(job, (spec.resources.queue,) if is_ready else ())


def _queues_of(spec: Spec) -> set[str]:
    queues = {spec.resources.queue}
    if isinstance(spec, AdaptSpec) and not isinstance(spec.base_model, str):
        queues.add(spec.base_model.resources.queue)
    return queues


def _gpu_needs(spec: Spec) -> GpuNeeds:
    specs = [spec]
    if isinstance(spec, AdaptSpec) and not isinstance(spec.base_model, str):
        specs.append(spec.base_model)
    return GpuNeeds.of(
        (one.training, one.resources.queue)
        for one in specs
        if isinstance(one, AdaptSpec | PretrainSpec)
    )


def queue_warnings(
    session: Session, queues: Set[str], needs: GpuNeeds = NO_NEEDS
) -> tuple[str, ...]:
    """Return warnings about queues on which jobs would wait or fail.

    `needs` are the queues of jobs that need a GPU.
    """
    served = workers.live_queues(session)
    return (
        *_queue_warnings(queues, served),
        *gpu_needs.warnings(session, needs, frozenset(served)),
    )


def _queue_warnings(queues: Set[str], served: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        f"No live worker serves the queue {queue!r}. The job would wait until one does."
        for queue in sorted(queues - set(served))
    )


def _done_before(session: Session, digests: Sequence[str]) -> dict[str, UUID]:
    """The first succeeded job of each digest in the request's project."""
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
