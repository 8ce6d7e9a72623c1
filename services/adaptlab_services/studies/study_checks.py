"""The jobs of a study's theory checks.

They are the jobs that exist, and those to create.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from adaptlab.plugins.theory_check import MeasuredAdaptation
from adaptlab.specs.resolve_theory import resolve_theory
from adaptlab.specs.resolved import ResolvedTheory, spec_digest, write_resolved
from adaptlab.specs.spec import TheorySpec
from adaptlab.studies.study_checks import measuring, provisional_adaptation
from adaptlab.studies.study_plan import Cell, PlannedCheck, StudyPlan
from adaptlab_db.tables import Job, StudyJob
from adaptlab_services.jobs.rows import NewJob, insert_jobs
from adaptlab_services.lifecycle import adaptations
from adaptlab_services.people.tokens import Principal
from adaptlab_services.studies import study_jobs
from adaptlab_services.studies.study_jobs import Assignment, OwnJob

Place = tuple[str, str, str, int]


@dataclass(frozen=True, slots=True)
class CheckJob:
    """A job of a check.

    It `is_ready` if the adaptations that it measures are there. `cell` is the one whose adaptation
    it measures, None if it measures none or several.
    """

    check: PlannedCheck
    cell: Cell | None
    spec: TheorySpec
    resolved: ResolvedTheory
    digest: str
    is_ready: bool


@dataclass(frozen=True, slots=True)
class CheckAssignment:
    """The jobs of a study's checks.

    `own` jobs belong to the study, `others` do not.
    """

    jobs: tuple[CheckJob, ...]
    own: Mapping[str, OwnJob]
    others: Mapping[str, UUID]

    @property
    def new(self) -> tuple[CheckJob, ...]:
        """The jobs that have to be created, each once."""
        existing = {**self.own, **self.others}
        return tuple({job.digest: job for job in self.jobs if job.digest not in existing}.values())

    def reused(self, digest: str) -> UUID | None:
        """Return the existing job of this digest; None if it has to be created."""
        own = self.own.get(digest)
        return self.others.get(digest) if own is None else own.job_id


@dataclass(frozen=True, slots=True)
class _Adaptation:
    """An adaptation of the study, trained or not."""

    facts: MeasuredAdaptation
    is_ready: bool


def assigned(
    session: Session,
    plan: StudyPlan,
    assignment: Assignment,
    made: Mapping[str, UUID],
    study_id: UUID | None = None,
) -> CheckAssignment:
    """Assign jobs to the plan's checks.

    The study's own come first, then those of others, then new ones. `made` has the jobs of the
    digests in `assignment` that exist by now.
    """
    jobs = tuple(_jobs(session, plan, assignment, made)) if plan.checks else ()
    own = _own_jobs(session, study_id)
    needed = {job.digest for job in jobs} - set(own)
    queues = {job.spec.resources.queue for job in jobs}
    return CheckAssignment(jobs, own, study_jobs.equal_jobs(session, needed, queues))


def write(
    session: Session,
    principal: Principal,
    study_id: UUID,
    assignment: CheckAssignment,
    base_is_ready: Mapping[str, bool],
) -> tuple[str, ...]:
    """Create the new jobs and link all of them.

    Returns the queues that have new work.
    """
    new = [_new(job, base_is_ready) for job in assignment.new]
    ids = dict(zip((job.digest for job in new), insert_jobs(session, principal, new), strict=True))
    session.execute(delete(StudyJob).where(StudyJob.study_id == study_id, StudyJob.role == "check"))
    rows = [_link(study_id, job, assignment, ids) for job in assignment.jobs]
    if rows:
        session.execute(insert(StudyJob), rows)
    return tuple(sorted({job.spec.resources.queue for job in new if job.is_ready}))


def _jobs(
    session: Session, plan: StudyPlan, assignment: Assignment, made: Mapping[str, UUID]
) -> Iterator[CheckJob]:
    by_place = _adaptations(session, plan, assignment, made)
    for check in plan.checks:
        if not check.cells:
            yield _job(check, None, ())
            continue
        measured = [item for cell in check.cells for item in by_place[_place(cell)]]
        if check.together:
            yield _job(check, check.cells[0] if len(check.cells) == 1 else None, measured)
            continue
        for adaptation in measured:
            yield _job(check, check.cells[0], (adaptation,))


def _job(check: PlannedCheck, cell: Cell | None, measured: Sequence[_Adaptation]) -> CheckJob:
    facts = [adaptation.facts for adaptation in measured]
    spec, resolved = check.spec, check.resolved
    if facts:
        spec = spec.model_copy(update=measuring([adaptation.job for adaptation in facts]))
        resolved = resolve_theory(spec, check.base, facts)
    is_ready = all(adaptation.is_ready for adaptation in measured)
    return CheckJob(check, cell, spec, resolved, spec_digest(resolved), is_ready)


def _adaptations(
    session: Session, plan: StudyPlan, assignment: Assignment, made: Mapping[str, UUID]
) -> Mapping[Place, list[_Adaptation]]:
    """Return the adaptations in every cell that a check measures.

    The keys are the cells' places.
    """
    places = {_place(cell) for check in plan.checks for cell in check.cells}
    links = [(_place(cell), which) for cell, which in assignment.links]
    wanted = [(place, which) for place, which in links if place in places]
    stored = _stored(session, {i for _, which in wanted if (i := _id(which, assignment, made))})
    by_place: dict[Place, list[_Adaptation]] = {place: [] for place in places}
    for place, which in wanted:
        job_id = _id(which, assignment, made)
        if job_id is not None:
            by_place[place].append(stored[job_id])
        elif isinstance(which, str):
            planned = provisional_adaptation(assignment.needed[which])
            by_place[place].append(_Adaptation(planned, is_ready=False))
    return by_place


def _id(which: str | OwnJob, assignment: Assignment, made: Mapping[str, UUID]) -> UUID | None:
    if isinstance(which, OwnJob):
        return which.job_id
    return made.get(which) or assignment.others.get(which)


def _stored(session: Session, job_ids: set[UUID]) -> Mapping[UUID, _Adaptation]:
    """Return the adaptations of jobs, and lock the jobs.

    The locks keep any from ending before a waiting job is inserted.
    """
    rows = session.execute(
        select(Job.id, Job.spec_digest, Job.resolved_spec, Job.state)
        .where(Job.id.in_(job_ids))
        .order_by(Job.id)
        .with_for_update(read=True)
    )
    return {
        job_id: _Adaptation(
            adaptations.stored(job_id, digest, stored),
            is_ready=state == "succeeded",
        )
        for job_id, digest, stored, state in rows
    }


def _own_jobs(session: Session, study_id: UUID | None) -> Mapping[str, OwnJob]:
    """The usable jobs of the study's checks, by digest."""
    rows = session.execute(
        select(Job.spec_digest, Job.id, StudyJob.reused)
        .join(StudyJob, StudyJob.job_id == Job.id)
        .where(StudyJob.study_id == study_id, StudyJob.role == "check", study_jobs.is_usable())
    )
    return {digest: OwnJob(job_id, (), reused) for digest, job_id, reused in rows}


def _new(job: CheckJob, base_is_ready: Mapping[str, bool]) -> NewJob:
    base = job.check.base
    is_ready = job.is_ready and (base is None or base_is_ready[base.name])
    return NewJob(job.spec, write_resolved(job.resolved), job.digest, is_ready)


def _link(
    study_id: UUID, job: CheckJob, assignment: CheckAssignment, new: Mapping[str, UUID]
) -> dict[str, object]:
    own = assignment.own.get(job.digest)
    base, cell = job.check.base, job.cell
    return {
        "study_id": study_id,
        "job_id": new.get(job.digest) or assignment.reused(job.digest),
        "base_model": None if base is None else base.name,
        "task": None if cell is None else cell.task,
        "method": job.check.of,
        "budget": None if cell is None else cell.budget,
        "role": "check",
        "theory_check": job.check.label,
        "over_budget": False,
        "reused": job.digest in assignment.others if own is None else own.reused,
    }


def _place(cell: Cell) -> Place:
    return cell.base_model, cell.task, cell.method, cell.budget
