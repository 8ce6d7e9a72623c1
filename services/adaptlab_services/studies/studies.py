"""Studies: preview, create, get, list, annotate, extend, clone and cancel."""

import time
import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from uuid import UUID

from sqlalchemy import func, null, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec
from adaptlab.reproductions.recipe import RecipeRef
from adaptlab.specs.annotations import StudyAnnotations
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.evaluation_warnings import evaluation_warnings
from adaptlab.specs.job_tasks import placed_tasks
from adaptlab.studies.deciding_power import few_items, few_seeds
from adaptlab.studies.study import (
    QuestionSpec,
    StudyChanges,
    StudyExtension,
    StudySpec,
    at_extension,
    base_names,
    changed,
    extended,
)
from adaptlab.studies.study_expansion import expand
from adaptlab.studies.study_methods import study_tasks
from adaptlab.studies.study_plan import StudyPlan
from adaptlab.values import Value
from adaptlab_answers.paging import Page
from adaptlab_answers.studies import (
    PlannedBase,
    PlannedCell,
    StudyPreview,
    StudySummary,
    StudyView,
)
from adaptlab_db.session import long_pause
from adaptlab_db.tables import Project, Study, StudyJob, User
from adaptlab_services import paging
from adaptlab_services.jobs import gpu_needs, jobs, slow_precision, study_lock, transit_sizes
from adaptlab_services.jobs.annotations import changed_columns
from adaptlab_services.jobs.estimates import estimate
from adaptlab_services.jobs.gpu_needs import GpuNeeds
from adaptlab_services.lifecycle import webhook_events
from adaptlab_services.limits import limits, quotas, sizes
from adaptlab_services.models import base_models, datasets, folder_changes
from adaptlab_services.models.model_folders import NO_ROOTS, ModelRoots
from adaptlab_services.models.token_checks import LONGEST_SECONDS, check_each
from adaptlab_services.paging import Cursor
from adaptlab_services.people import access, idempotency
from adaptlab_services.people.tokens import Principal
from adaptlab_services.querying.list_conditions import Archived, archiving
from adaptlab_services.studies import (
    question_decisions,
    question_plans,
    study_checks,
    study_jobs,
)
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
"""Longest time for computing a plan between two statements.

Shorter than the longest wait for the lock of studies.
"""


@dataclass(frozen=True, slots=True)
class Rules:
    """The server's limits.

    They are the jobs per study, the queued jobs per owner, and the roots of model folders.
    """

    most_jobs: int = DEFAULT_MOST_JOBS
    roots: ModelRoots = NO_ROOTS
    most_queued: int | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """The answer to a change.

    `queues` have new work, and are rung after the commit.
    """

    study: StudyView
    replayed: bool
    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Bases:
    """The base models of a study.

    `made` names those that were created just now.
    """

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
    """Create a study, with the jobs and base models that do not exist yet.

    `recipe` is the recipe of which the spec was made, if any, and `asked` the request to which the
    idempotency key belongs, if it is not the spec. Raises `InvalidSpec` for a study that cannot be
    run, `StateConflict` for a taken name, and `IdempotencyMismatch` for a key that was used with
    another request.
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
    """Check a spec, and return the study that it would become.

    The check is that of a creation.
    """
    check_free(session, spec.name)
    return _preview(session, spec, rules, None)


def extend(
    session: Session, principal: Principal, study: str, extension: StudyExtension, rules: Rules
) -> Changed:
    """Add what a study lacks of the extension, and re-run failed jobs.

    Raises `StateConflict` for a cancelled study.
    """
    study_lock.take(session)
    row = locked_row(session, study)
    access.check_change(session, row.owner_id, row.project_id)
    before = spec_of(row)
    spec = extended(before, extension)
    row.spec = spec.model_dump(mode="json", exclude_unset=True)
    row.extended_at = func.clock_timestamp()
    if spec.question is not None:
        question_plans.reopen(session, row)
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
    """Return the study that an extension would lead to.

    The study's own jobs count as `reused` too.
    """
    row = locked_row(session, study)
    spec = spec_of(row)
    try:
        with access.inside(session, row.project_id):
            return _preview(session, extended(spec, extension), rules, row.id)
    except InvalidSpec as error:
        raise at_extension(error, spec, extension) from error


def cloned(session: Session, study: str, changes: StudyChanges) -> StudySpec:
    """Return the spec of a study with changes, for a clone.

    Raises `InvalidSpec`.
    """
    return changed(spec_of(study_row(session, study)), changes)


def inside_project_of(session: Session, study: str) -> AbstractContextManager[None]:
    """Work in the project of a study, where a clone finds its base models.

    If another project shares the study, work in the caller's project.
    """
    project_id = study_row(session, study).project_id
    return access.inside(
        session, access.project_of(session) if access.is_shared(session, project_id) else project_id
    )


def inside_extended(
    session: Session, study: str, *, is_preview: bool
) -> AbstractContextManager[None]:
    """Work in the project of a study that is to be extended.

    Raises `Absent`, and `Forbidden` unless the caller may extend it or it is a preview.
    """
    row = study_row(session, study)
    if not is_preview:
        access.check_change(session, row.owner_id, row.project_id)
    return access.inside(session, row.project_id)


def get(session: Session, study: str) -> StudyView:
    """Return one study, by id or name; raises `Absent`."""
    row = study_row(session, study)
    return study_view(session, row, belonging(session, row))


def page(
    session: Session,
    *,
    job_id: UUID | None = None,
    page_size: int = paging.DEFAULT_PAGE_SIZE,
    page_token: str | None = None,
    archived: Archived = "exclude",
) -> Page[StudySummary]:
    """Return a page of studies, newest first.

    With `job_id`, only studies that the job belongs to are included.
    """
    question = ("studies", str(job_id), *([] if archived == "exclude" else [archived]))
    query = (
        select(Study, User.name, Project.name)
        .join(User, User.id == Study.owner_id)
        .join(Project, Project.id == Study.project_id)
        .where(*archiving(Study.archived_at, archived))
    )
    if job_id is not None:
        belongs = select(StudyJob.study_id).where(StudyJob.job_id == job_id)
        query = query.where(Study.id.in_(belongs))
    if page_token is not None:
        query = query.where(paging.read(page_token, *question).older(Study.created_at, Study.id))
    query = query.order_by(Study.created_at.desc(), Study.id.desc())
    rows = session.execute(query.limit(paging.page_limit(page_size))).all()
    shown = rows[: paging.page_limit(page_size) - 1]
    token = None
    if len(rows) > len(shown):
        last = shown[-1].Study
        token = paging.written(Cursor(last.created_at.isoformat(), str(last.id)), *question)
    counts = counted(session, [row.Study.id for row in shown])
    return Page(
        data=tuple(
            study_summary(study, Belonging(owner, project), counts[study.id])
            for study, owner, project in shown
        ),
        next_page_token=token,
    )


def cancel(session: Session, principal: Principal, study: str) -> Changed:
    """Cancel a study, and its jobs that nothing else needs.

    These are jobs that were created for studies and that only cancelled studies have. Jobs that a
    user submitted directly continue. Repeating the call changes nothing.
    """
    study_lock.take(session)
    row = locked_row(session, study, even_cancelled=True)
    access.check_change(session, row.owner_id, row.project_id)
    if row.cancelled_at is None:
        row.cancelled_at = func.clock_timestamp()
        row.question_open = False
        session.flush()
        webhook_events.study_changed(session, row.id)
    queues = stop_jobs(session, principal, row.id)
    session.refresh(row)
    return Changed(get(session, str(row.id)), replayed=False, queues=queues)


def annotate(session: Session, study: str, changes: StudyAnnotations) -> StudyView:
    """Change what is written on a study, in whatever state it is.

    Raises `Absent`, `Forbidden`, `StateConflict` for a name that another study has, and
    `InvalidSpec` for too many labels.
    """
    if changes.name is not None:
        study_lock.take(session)  # so that no study of that name is created meanwhile
    row = locked_row(session, study, even_cancelled=True)
    access.check_change(session, row.owner_id, row.project_id)
    if changes.name not in (None, row.name):
        _rename(session, row, str(changes.name))
    for column, value in changed_columns(row, changes).items():
        setattr(row, column, value)
    session.flush()
    session.refresh(row)
    return study_view(session, row, belonging(session, row))


def _rename(session: Session, row: Study, name: str) -> None:
    """Rename a study, and the spec from which clones and extensions begin.

    Raises `StateConflict` for a name that another study of the project has.
    """
    with access.inside(session, row.project_id):
        check_free(session, name)
    row.name = name
    row.spec = {**row.spec, "name": name}


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
    """Create the jobs that the study lacks.

    Returns the queues that have new work.
    """
    base_names(spec)
    bases = _made_bases(session, principal, spec, rules.roots)
    plan = _plan(session, spec, bases.facts, rules)
    session.execute(
        update(Study)
        .where(Study.id == study_id)
        .values(skipped=[cell.model_dump(mode="json") for cell in plan.skipped])
    )
    study_jobs.write_bases(session, study_id, plan.base_models, bases.made)
    webhook_events.study_changed(session, study_id)
    if spec.question is not None:
        return _ask(session, principal, study_id, plan, bases)
    assignment = study_jobs.assigned(session, plan, study_id)
    ready = {name: base_models.is_ready(session, name) for name in plan.base_models}
    written = study_jobs.write(session, principal, study_id, assignment, ready)
    checks = study_checks.assigned(session, plan, assignment, written.jobs, study_id)
    queues = study_checks.write(session, principal, study_id, checks, ready)
    new = {job.spec.resources.queue for job in (*assignment.new, *checks.new)}
    quotas.check_jobs(session, principal.user_id, new | set(bases.queues))
    return tuple(dict.fromkeys((*bases.queues, *written.queues, *queues)))


def _ask(
    session: Session, principal: Principal, study_id: UUID, plan: StudyPlan, bases: _Bases
) -> tuple[str, ...]:
    """Take the next decision of a study with a question.

    Returns the queues that have new work.
    """
    row = session.execute(select(Study).where(Study.id == study_id).with_for_update()).scalar_one()
    row.question_open = True
    queues = question_plans.decide(session, principal, row, plan, bases.facts)
    quotas.check_jobs(session, principal.user_id, {*queues, *bases.queues})
    return tuple(dict.fromkeys((*bases.queues, *queues)))


def _plan(
    session: Session, spec: StudySpec, bases: tuple[BaseModelFacts, ...], rules: Rules
) -> StudyPlan:
    """Expand the study.

    Raises `InvalidSpec` for more or larger jobs than are allowed.
    """
    for index, base in enumerate(bases):
        folder_changes.check_base(session, base, rules.roots, f"/base_models/{index}")
    known = datasets.known(session)
    # Takes seconds for many jobs on deep models, while the session is idle in its transaction.
    with long_pause(session, LONGEST_COMPUTING):
        plan = expand(spec, bases, rules.most_jobs, known)
        planned = [(one.resolved, one.spec.resources.queue) for one in (*plan.jobs, *plan.checks)]
        sizes.check_each(session, [resolved for resolved, _ in planned])
        gpu_needs.check_each(session, planned)
    _check_texts(session, spec, bases, plan, rules)
    return plan


def _check_texts(
    session: Session,
    spec: StudySpec,
    bases: tuple[BaseModelFacts, ...],
    plan: StudyPlan,
    rules: Rules,
) -> tuple[str, ...]:
    """Return warnings about texts.

    Raises `InvalidSpec` if a worker would refuse one.

    No further check is begun after ten seconds, because the others wait for the lock of studies.
    """
    texts = [job.resolved for job in plan.jobs if job.resolved.task.needs_tokeniser]
    if not texts:
        return ()
    known = datasets.known(session)
    tasks = study_tasks(spec, known)
    warnings: list[str] = []
    end = time.monotonic() + LONGEST_SECONDS
    for base in bases:
        jobs_of_base = [job for job in texts if job.base_model == base.name]
        own = [job.task for job in jobs_of_base]
        placed = [(f"/tasks/{index}", task) for index, task in enumerate(tasks) if task in own]
        if jobs_of_base:
            placed += placed_tasks(spec.evaluation, known)
        for pointer, task in placed:
            if time.monotonic() < end:
                warnings += check_each(session, base, [(pointer, task)], rules.roots)
    return tuple(dict.fromkeys(warnings))


def _made_bases(
    session: Session, principal: Principal, spec: StudySpec, roots: ModelRoots
) -> _Bases:
    """Create the jobs of new inline base models; return all base models.

    An inline base model is new if it does not exist yet.
    """
    facts: list[BaseModelFacts] = []
    made: list[str] = []
    queues: list[str] = []
    for index, base in enumerate(spec.base_models):
        try:
            name = base
            if not isinstance(base, str):
                made_now = jobs.base_of(session, principal, base, roots)
                name = made_now.name
                made += [name] if made_now.is_new else []
                queues += made_now.queues
            facts.append(base_models.facts(session, str(name)))
        except InvalidSpec as error:
            raise _at_base(error, index) from error
    return _Bases(tuple(facts), tuple(made), tuple(queues))


def _base_plans(session: Session, spec: StudySpec, roots: ModelRoots) -> list[jobs.BasePlan]:
    """Look up all base models; creates nothing."""
    plans: list[jobs.BasePlan] = []
    for index, base in enumerate(spec.base_models):
        try:
            plans.append(jobs.base_plan(session, base, roots))
        except InvalidSpec as error:
            raise _at_base(error, index) from error
    return plans


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
    bases = _base_plans(session, spec, rules.roots)
    facts = tuple(base.facts for base in bases)
    plan = _plan(session, spec, facts, rules)
    if spec.question is not None:
        return _preview_question(session, spec, spec.question, plan, bases, rules)
    assignment = study_jobs.assigned(session, plan, study_id)
    checks = study_checks.assigned(session, plan, assignment, {}, study_id)
    new_bases = {base.facts.name: base.job for base in bases if base.job is not None}
    queues = {job.spec.resources.queue for job in (*assignment.new, *checks.new)}
    queues |= {queue for _, queue in new_bases.values()}
    trained = (
        *((job.resolved, job.spec.resources.queue) for job in assignment.new),
        *new_bases.values(),
    )
    needs = GpuNeeds.of((job.training, queue) for job, queue in trained if job.training)
    warnings = jobs.queue_warnings(session, queues, needs)
    warnings += slow_precision.warnings(session, trained)
    warnings += transit_sizes.warnings(session, trained)
    warnings += evaluation_warnings(spec.evaluation, [job.resolved for job in plan.jobs])
    warnings += _check_texts(session, spec, facts, plan, rules)
    warnings += _deciding_power(plan)
    estimated = {name: estimate(session, *job) for name, job in new_bases.items()}
    return study_preview(session, spec.name, plan, assignment, checks, estimated, warnings)


def _deciding_power(plan: StudyPlan) -> tuple[str, ...]:
    """Return warnings about a plan whose seeds or test items decide little."""
    seeds = {seed for job in plan.jobs for seed in job.resolved.seeds}
    methods = {cell.method for cell in plan.cells if cell.role == "method"}
    items = min((job.resolved.test_items for job in plan.jobs), default=0)
    return (*few_seeds(len(seeds), len(methods)), *few_items(items, len(methods)))


def _preview_question(
    session: Session,
    spec: StudySpec,
    question: QuestionSpec,
    plan: StudyPlan,
    bases: Sequence[jobs.BasePlan],
    rules: Rules,
) -> StudyPreview:
    """Return a preview with the first passes and the cost of a question."""
    new_bases = {base.facts.name: base.job for base in bases if base.job is not None}
    queues = {job.spec.resources.queue for job in plan.jobs}
    queues |= {queue for _, queue in new_bases.values()}
    facts = tuple(base.facts for base in bases)
    warnings = jobs.queue_warnings(session, queues)
    warnings += evaluation_warnings(spec.evaluation, [job.resolved for job in plan.jobs])
    warnings += _check_texts(session, spec, facts, plan, rules)
    made = sum(estimate(session, *job).seconds for job in new_bases.values())
    cost = question_decisions.question_cost(session, question, plan)
    first = question_plans.first_passes(question, plan)
    return StudyPreview(
        name=spec.name,
        budget_axis=plan.axis,
        base_models=tuple(PlannedBase(name=n, is_new=n in new_bases) for n in plan.base_models),
        jobs=(),
        cells=tuple(
            PlannedCell(**cell.model_dump(exclude={"digest"}), jobs=()) for cell in plan.cells
        ),
        checks=(),
        skipped=plan.skipped,
        new_jobs=len(first),
        reused_jobs=0,
        passes=len(new_bases) + len(first),
        seconds=round(made + cost.least_seconds, 1),
        question=cost,
        warnings=warnings,
    )
