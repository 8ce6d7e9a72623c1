"""Studies: preview, create, look at, list, extend, clone and cancel."""

import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal
from uuid import UUID

from sqlalchemy import ColumnElement, func, null, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec
from adaptlab.reproductions.recipe import RecipeRef
from adaptlab.specs.resolve import BaseModelFacts
from adaptlab.specs.spec import BaseSpec
from adaptlab.studies.study import (
    StudyChanges,
    StudyExtension,
    StudySpec,
    at_extension,
    base_names,
    changed,
    extended,
)
from adaptlab.studies.study_expansion import expand
from adaptlab.studies.study_plan import StudyPlan
from adaptlab.values import Value
from adaptlab_answers.jobs import Estimate
from adaptlab_answers.paging import Page
from adaptlab_answers.studies import StudyPreview, StudySummary, StudyView
from adaptlab_db.job_states import LOST_STATES
from adaptlab_db.tables import BaseModel, Job, Project, Study, StudyJob, User
from adaptlab_services import paging
from adaptlab_services.jobs import jobs, study_lock
from adaptlab_services.jobs.estimates import estimate
from adaptlab_services.limits import limits, quotas, sizes
from adaptlab_services.models import base_models, datasets
from adaptlab_services.models.model_folders import NO_ROOTS, ModelRoots
from adaptlab_services.paging import Cursor
from adaptlab_services.people import access, idempotency
from adaptlab_services.people.tokens import Principal
from adaptlab_services.studies import study_checks, study_jobs
from adaptlab_services.studies.study_cancelling import stop_jobs
from adaptlab_services.studies.study_previews import study_preview
from adaptlab_services.studies.study_rows import (
    belonging,
    check_free,
    locked_row,
    spec_of,
    study_row,
)
from adaptlab_services.studies.study_views import Belonging, counted, study_summary, study_view

DEFAULT_MOST_JOBS = 1000
LONGEST_COMPUTING = "15s"
"""For which a plan may be computed between two statements.

It is shorter than others wait for the lock of studies.
"""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the server allows: jobs of a study, queued jobs of an owner, places of model folders."""

    most_jobs: int = DEFAULT_MOST_JOBS
    roots: ModelRoots = NO_ROOTS
    most_queued: int | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """The answer to a change; `queues` have new work and are rung after the commit."""

    study: StudyView
    replayed: bool
    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Bases:
    """The base models of a study: what is known of each, and which were made just now."""

    facts: tuple[BaseModelFacts, ...]
    made: tuple[str, ...]
    queues: tuple[str, ...]


def create(
    session: Session,
    principal: Principal,
    spec: StudySpec,
    rules: Rules,
    *,
    idempotency_key: str | None = None,
    recipe: RecipeRef | None = None,
    asked: Value | None = None,
) -> Changed:
    """Store a study, its jobs that nobody has run, and those of base models that are not there.

    `recipe` is the one that the spec was made from, if any, and `asked` is then the request to
    which the key belongs.
    Raises `InvalidSpec` for a study that cannot be run as it is, `Conflict` for a taken name and
    `IdempotencyMismatch` for a key that was used with another request.
    """
    access.to_create(session)
    digest = idempotency.request_digest(session, asked or spec)
    if idempotency_key is not None:
        earlier = idempotency.answered(session, principal.user_id, idempotency_key, digest)
        if earlier is not None:
            return Changed(get(session, str(earlier)), replayed=True, queues=())
    study_lock.take(session)
    study_id = _insert(session, principal, spec, recipe)
    queues = _run(session, principal, study_id, spec, rules)
    limits.check_queued(session, principal.user_id, rules.most_queued)
    if idempotency_key is not None:
        idempotency.remember(session, principal.user_id, idempotency_key, digest, study_id=study_id)
    return Changed(get(session, str(study_id)), replayed=False, queues=queues)


def preview(session: Session, spec: StudySpec, rules: Rules) -> StudyPreview:
    """Run every check of a creation and say what would become of the study."""
    check_free(session, spec.name)
    return _preview(session, spec, rules, None)


def extend(
    session: Session, principal: Principal, study: str, extension: StudyExtension, rules: Rules
) -> Changed:
    """Give a study what it lacks of the extension, and run again what has failed.

    Raises `Conflict` for a study that was cancelled.
    """
    study_lock.take(session)
    row = locked_row(session, study)
    access.check_change(session, row.owner_id, row.project_id)
    before = spec_of(row)
    spec = extended(before, extension)
    row.spec = spec.model_dump(mode="json", exclude_unset=True)
    row.extended_at = func.clock_timestamp()
    session.flush()
    try:
        with access.inside(session, row.project_id):
            queues = _run(session, principal, row.id, spec, rules)
    except InvalidSpec as error:
        raise at_extension(error, before, extension) from error
    limits.check_queued(session, principal.user_id, rules.most_queued)
    return Changed(get(session, str(row.id)), replayed=False, queues=queues)


def preview_extension(
    session: Session, study: str, extension: StudyExtension, rules: Rules
) -> StudyPreview:
    """Say what would become of a study by an extension; `reused` are also its own jobs."""
    row = locked_row(session, study)
    spec = spec_of(row)
    try:
        with access.inside(session, row.project_id):
            return _preview(session, extended(spec, extension), rules, row.id)
    except InvalidSpec as error:
        raise at_extension(error, spec, extension) from error


def cloned(session: Session, study: str, changes: StudyChanges) -> StudySpec:
    """The spec of a study with some members otherwise, to be created; raises `InvalidSpec`."""
    return changed(spec_of(study_row(session, study)), changes)


def inside_project_of(session: Session, study: str) -> AbstractContextManager[None]:
    """Let what is made go where a study is: its clone finds the same base models there."""
    return access.inside(session, study_row(session, study).project_id)


def get(session: Session, study: str) -> StudyView:
    """One study, by id or name."""
    row = study_row(session, study)
    return study_view(session, row, belonging(session, row))


def page(
    session: Session,
    *,
    job_id: UUID | None = None,
    page_size: int = paging.DEFAULT_PAGE_SIZE,
    page_token: str | None = None,
) -> Page[StudySummary]:
    """Studies, newest first; with `job_id` those that the job belongs to."""
    question = ("studies", str(job_id))
    query = (
        select(Study, User.name, Project.name)
        .join(User, User.id == Study.owner_id)
        .join(Project, Project.id == Study.project_id)
    )
    if job_id is not None:
        belongs = select(StudyJob.study_id).where(StudyJob.job_id == job_id)
        query = query.where(Study.id.in_(belongs))
    if page_token is not None:
        query = query.where(_after(paging.read(page_token, *question)))
    query = query.order_by(Study.created_at.desc(), Study.id.desc())
    rows = session.execute(query.limit(paging.page_limit(page_size))).all()
    shown = rows[: paging.page_limit(page_size) - 1]
    token = None
    if len(rows) > len(shown):
        last = shown[-1][0]
        token = paging.written(Cursor(last.created_at.isoformat(), str(last.id)), *question)
    counts = counted(session, [row[0].id for row in shown])
    return Page(
        data=tuple(
            study_summary(study, Belonging(owner, project), counts[study.id])
            for study, owner, project in shown
        ),
        next_page_token=token,
    )


def cancel(session: Session, principal: Principal, study: str) -> Changed:
    """Cancel a study and those of its jobs that were made for studies which are all cancelled.

    Jobs that somebody asked for by themselves go on. Repeating the call changes nothing.
    """
    study_lock.take(session)
    row = locked_row(session, study, even_cancelled=True)
    access.check_change(session, row.owner_id, row.project_id)
    if row.cancelled_at is None:
        row.cancelled_at = func.clock_timestamp()
        session.flush()
    queues = stop_jobs(session, principal, row.id)
    session.refresh(row)
    return Changed(get(session, str(row.id)), replayed=False, queues=queues)


def _insert(
    session: Session, principal: Principal, spec: StudySpec, recipe: RecipeRef | None
) -> UUID:
    study_id = uuid.uuid4()
    written = session.execute(
        insert(Study)
        .values(
            id=study_id,
            owner_id=principal.user_id,
            project_id=access.to_create(session),
            name=spec.name,
            spec=spec.model_dump(mode="json", exclude_unset=True),
            skipped=[],
            recipe=null() if recipe is None else recipe.model_dump(mode="json"),
        )
        .on_conflict_do_nothing(index_elements=[Study.project_id, Study.name])
        .returning(Study.id)
    )
    if written.scalar_one_or_none() is None:
        check_free(session, spec.name)
    return study_id


def _run(
    session: Session, principal: Principal, study_id: UUID, spec: StudySpec, rules: Rules
) -> tuple[str, ...]:
    """Make the jobs that the study lacks; returns the queues in which there is new work."""
    base_names(spec)
    bases = _made_bases(session, principal, spec, rules.roots)
    plan = _plan(session, spec, bases.facts, rules)
    session.execute(
        update(Study)
        .where(Study.id == study_id)
        .values(skipped=[cell.model_dump(mode="json") for cell in plan.skipped])
    )
    study_jobs.write_bases(session, study_id, plan.base_models, bases.made)
    assignment = study_jobs.assigned(session, plan, study_id)
    ready = {name: base_models.is_ready(session, name) for name in plan.base_models}
    states: dict[str, Literal["waiting", "queued"]] = {
        name: "queued" if is_ready else "waiting" for name, is_ready in ready.items()
    }
    written = study_jobs.write(session, principal, study_id, assignment, states)
    checks = study_checks.assigned(session, plan, assignment, written.jobs, study_id)
    queues = study_checks.write(session, principal, study_id, checks, ready)
    new = {job.spec.resources.queue for job in (*assignment.new, *checks.new)}
    quotas.check_jobs(session, principal.user_id, new | set(bases.queues))
    return tuple(dict.fromkeys((*bases.queues, *written.queues, *queues)))


def _plan(
    session: Session, spec: StudySpec, bases: tuple[BaseModelFacts, ...], rules: Rules
) -> StudyPlan:
    """What the study comes to; raises `InvalidSpec` for more or larger jobs than are allowed."""
    known = datasets.known(session)
    # Seconds for many jobs on deep models, during which the database hears nothing.
    session.execute(text(f"SET LOCAL idle_in_transaction_session_timeout = '{LONGEST_COMPUTING}'"))
    plan = expand(spec, bases, rules.most_jobs, known)
    sizes.check_each(session, [one.resolved for one in (*plan.jobs, *plan.checks)])
    session.execute(text("SET LOCAL idle_in_transaction_session_timeout TO DEFAULT"))
    return plan


def _made_bases(
    session: Session, principal: Principal, spec: StudySpec, roots: ModelRoots
) -> _Bases:
    """The base models, after the jobs of those that nobody makes yet have been created."""
    facts: list[BaseModelFacts] = []
    made: list[str] = []
    queues: list[str] = []
    for index, base in enumerate(spec.base_models):
        try:
            name = base
            if not isinstance(base, str):
                name, rung = jobs.base_of(session, principal, base, roots)
                made += [name] if rung else []
                queues += rung
            facts.append(base_models.facts(session, str(name)))
        except InvalidSpec as error:
            raise _at_base(error, index) from error
    return _Bases(tuple(facts), tuple(made), tuple(queues))


def _looked_up_bases(
    session: Session, spec: StudySpec, roots: ModelRoots
) -> tuple[BaseModelFacts, ...]:
    """The base models as they would be; nothing is made."""
    facts: list[BaseModelFacts] = []
    for index, base in enumerate(spec.base_models):
        try:
            facts.append(jobs.facts_without_creating(session, base, roots))
        except InvalidSpec as error:
            raise _at_base(error, index) from error
    return tuple(facts)


def _at_base(error: InvalidSpec, index: int) -> InvalidSpec:
    place = f"/base_models/{index}"
    moved = (
        replace(p, pointer=place + p.pointer.removeprefix("/base_model")) for p in error.problems
    )
    return InvalidSpec(*moved)


def _preview(
    session: Session, spec: StudySpec, rules: Rules, study_id: UUID | None
) -> StudyPreview:
    base_names(spec)
    bases = _looked_up_bases(session, spec, rules.roots)
    plan = _plan(session, spec, bases, rules)
    assignment = study_jobs.assigned(session, plan, study_id)
    checks = study_checks.assigned(session, plan, assignment, {}, study_id)
    made = _unmade(session, spec, plan.base_models)
    queues = {job.spec.resources.queue for job in (*assignment.new, *checks.new)}
    queues |= {base.resources.queue for base in made}
    warnings = jobs.queue_warnings(session, queues)
    estimated = {base.name: _estimate(session, base, rules.roots) for base in made}
    return study_preview(session, spec.name, plan, assignment, checks, estimated, warnings)


def _unmade(session: Session, spec: StudySpec, names: Sequence[str]) -> tuple[BaseSpec, ...]:
    """The inline base models that nobody makes yet; `names` are those that will be used."""
    query = select(BaseModel.name).join(Job, Job.id == BaseModel.job_id)
    usable = BaseModel.name.in_(names), Job.state.not_in(LOST_STATES)
    here = BaseModel.project_id == access.project_of(session)
    known = set(session.scalars(query.where(here, *usable)))
    pairs = zip(spec.base_models, names, strict=True)
    return tuple(b for b, name in pairs if not isinstance(b, str) and name not in known)


def _estimate(session: Session, base: BaseSpec, roots: ModelRoots) -> Estimate:
    resolved = jobs.resolved_base(session, base, roots)
    return estimate(session, resolved, base.resources.queue)


def _after(cursor: Cursor) -> ColumnElement[bool]:
    try:
        place = tuple_(datetime.fromisoformat(cursor.key), UUID(cursor.id))
    except ValueError as error:
        raise paging.bad_token("It belongs to another list.") from error
    return tuple_(Study.created_at, Study.id) < place
