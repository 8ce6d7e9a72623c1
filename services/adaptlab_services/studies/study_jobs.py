"""The jobs of a study, and the links to them.

The jobs are those that exist and those that the study's plan lacks.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ColumnElement, Delete, and_, delete, exists, or_, select
from sqlalchemy.dialects.postgresql import distinct_on, insert
from sqlalchemy.orm import Session

from adaptlab.code_version import code_version
from adaptlab.specs.resolved import seedless_digest, write_resolved
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.studies.study_plan import Cell, PlannedJob, StudyPlan
from adaptlab_db.job_states import LOST_STATES, PENDING_STATES
from adaptlab_db.tables import Artifact, AttemptRow, BaseModel, CheckpointRow, Job, StudyJob
from adaptlab_services.jobs.rows import NewJob, insert_jobs
from adaptlab_services.people import access
from adaptlab_services.people.tokens import Principal

IN_CELLS = ("method", "reference", "control")


@dataclass(frozen=True, slots=True)
class OwnJob:
    """A job that the study has already.

    It has not failed or been cancelled.
    """

    job_id: UUID
    seeds: tuple[int, ...]
    reused: bool


@dataclass(frozen=True, slots=True)
class Assignment:
    """The assignment of jobs to the cells of a plan.

    Attributes:
        needed: jobs that the study does not have, by digest.
        others: those of them that exist already, outside the study.
        links: for every cell, the digests of needed jobs and the jobs that the study has.
    """

    needed: Mapping[str, PlannedJob]
    others: Mapping[str, UUID]
    links: tuple[tuple[Cell, str | OwnJob], ...]

    @property
    def new(self) -> tuple[PlannedJob, ...]:
        """The jobs that have to be created."""
        return tuple(job for digest, job in self.needed.items() if digest not in self.others)


@dataclass(frozen=True, slots=True)
class Written:
    """The jobs of an assignment by digest, and the queues that have new work."""

    jobs: Mapping[str, UUID]
    queues: tuple[str, ...]


def assigned(session: Session, plan: StudyPlan, study_id: UUID | None = None) -> Assignment:
    """Cover every seed of every cell by jobs.

    The study's own jobs come first, then other jobs, then new ones. Without `study_id`, the study
    is new and has no jobs.
    """
    jobs = {job.digest: job for job in plan.jobs}
    measured = {cell.digest for check in plan.checks for cell in check.cells}
    present = _present(session, study_id, {jobs[digest].seedless for digest in measured})
    with_files: set[str] = set()
    needed: dict[str, PlannedJob] = {}
    links: list[tuple[Cell, str | OwnJob]] = []
    for cell in plan.cells:
        job = jobs[cell.digest]
        wanted = list(job.resolved.seeds)
        for own in present.get(job.seedless, ()) if present else ():
            if set(own.seeds) & set(wanted):
                wanted = [seed for seed in wanted if seed not in own.seeds]
                links.append((cell, own))
        if wanted:
            rest = job.with_seeds(wanted)
            needed[rest.digest] = rest
            with_files |= {rest.digest} if cell.digest in measured else set()
            links.append((cell, rest.digest))
    queues = {job.spec.resources.queue for job in needed.values()}
    others = equal_jobs(session, needed, queues, with_files)
    return Assignment(needed, others, tuple(links))


def write(
    session: Session,
    principal: Principal,
    study_id: UUID,
    assignment: Assignment,
    base_is_ready: Mapping[str, bool],
) -> Written:
    """Create an assignment's new jobs, and link all its jobs to the study.

    Jobs wait if their base model is not ready, by `base_is_ready`. Links to lost jobs, and to jobs
    that the study no longer needs, are deleted.
    """
    new = [
        NewJob(
            job.spec,
            write_resolved(job.resolved),
            job.digest,
            all(
                base_is_ready[name]
                for name in (
                    job.resolved.base_model,
                    *(other.name for other in job.resolved.evaluation_bases),
                )
            ),
        )
        for job in assignment.new
    ]
    ids = dict(zip((job.digest for job in new), insert_jobs(session, principal, new), strict=True))
    rows = [
        _link(study_id, cell, which, ids, assignment.others) for cell, which in assignment.links
    ]
    kept = [row["job_id"] for row in rows]
    session.execute(
        delete(StudyJob).where(
            StudyJob.study_id == study_id,
            StudyJob.role.in_(IN_CELLS),
            StudyJob.job_id.not_in(kept),
        )
    )
    if rows:
        session.execute(insert(StudyJob).on_conflict_do_nothing(), rows)
    queues = sorted({job.spec.resources.queue for job in new if job.is_ready})
    return Written({**assignment.others, **ids}, tuple(queues))


def write_bases(
    session: Session, study_id: UUID, names: Sequence[str], made: Sequence[str]
) -> None:
    """Link the jobs of the study's base models.

    Those in `made` were created for it.
    """
    jobs = session.execute(
        select(BaseModel.name, BaseModel.job_id).where(
            BaseModel.name.in_(names), BaseModel.project_id == access.project_of(session)
        )
    )
    rows = [
        {
            "study_id": study_id,
            "job_id": job_id,
            "base_model": name,
            "role": "base_model",
            "over_budget": False,
            "reused": name not in made,
        }
        for name, job_id in sorted(jobs, key=lambda row: names.index(row.name))
    ]
    kept = [row["job_id"] for row in rows]
    session.execute(
        delete(StudyJob).where(
            StudyJob.study_id == study_id,
            StudyJob.role == "base_model",
            StudyJob.job_id.not_in(kept),
        )
    )
    if rows:
        session.execute(insert(StudyJob).on_conflict_do_nothing(), rows)


def equal_jobs(
    session: Session,
    digests: Collection[str],
    queues: Collection[str],
    with_files: Collection[str] = (),
) -> Mapping[str, UUID]:
    """Find existing jobs of these digests.

    They wait or run in one of `queues`, or succeeded with this code. Only jobs of the same project
    count, because other users see the study. Results of another version of the code would
    invalidate the comparison. For digests in `with_files`, only jobs whose checkpoints are still
    stored count.
    """
    coming = and_(
        Job.state.in_((*PENDING_STATES, "running")),
        Job.cancel_requested_at.is_(None),
        Job.queue.in_(queues),
    )
    same_code = exists().where(
        AttemptRow.job_id == Job.id,
        AttemptRow.attempt == Job.attempt,
        AttemptRow.environment["code_version"].astext == code_version(),
    )
    may_do_without = Job.spec_digest.not_in(with_files)
    done = and_(Job.state == "succeeded", same_code, or_(may_do_without, ~_has_lost_files()))
    rows = session.execute(
        select(Job.spec_digest, Job.id)
        .where(Job.project_id == access.project_of(session))
        .where(Job.spec_digest.in_(digests), or_(done, coming))
        .order_by((Job.state == "succeeded").desc(), Job.created_at, Job.id)
    )
    jobs: dict[str, UUID] = {}
    for digest, job_id in rows:
        jobs.setdefault(digest, job_id)
    return jobs


def unlink(study_id: UUID, job_ids: Collection[UUID]) -> Delete:
    """Return the statement that takes jobs out of a study."""
    return delete(StudyJob).where(StudyJob.study_id == study_id, StudyJob.job_id.in_(job_ids))


def is_usable() -> ColumnElement[bool]:
    """Return the condition that a study can keep a job.

    It can if the job will succeed or has succeeded.
    """
    ended_well = or_(Job.state == "succeeded", Job.cancel_requested_at.is_(None))
    return and_(Job.state.not_in(LOST_STATES), ended_well)


def _has_lost_files() -> ColumnElement[bool]:
    """The condition that a checkpoint of a job was collected or found damaged."""
    return exists(
        select(CheckpointRow.id)
        .join(Artifact, Artifact.sha256 == CheckpointRow.artifact_sha256)
        .where(
            CheckpointRow.job_id == Job.id,
            CheckpointRow.attempt == Job.attempt,
            Artifact.state != "ready",
        )
    )


def _present(
    session: Session, study_id: UUID | None, with_files: Collection[str]
) -> Mapping[str, tuple[OwnJob, ...]]:
    """The usable jobs of the study, by the digest of their spec without seeds.

    For digests in `with_files`, only jobs whose checkpoints are still stored count.
    """
    if study_id is None:
        return {}
    rows = session.execute(
        select(Job.id, Job.resolved_spec, StudyJob.reused, _has_lost_files())
        .ext(distinct_on(Job.created_at, Job.id))
        .join(StudyJob, StudyJob.job_id == Job.id)
        .where(
            StudyJob.study_id == study_id,
            StudyJob.role.in_(IN_CELLS),
            is_usable(),
        )
        .order_by(Job.created_at, Job.id)
    ).all()
    present: dict[str, list[OwnJob]] = {}
    for job_id, stored, reused, has_lost_files in rows:
        resolved = ResolvedSpec.model_validate(stored)
        seedless = seedless_digest(resolved)
        if not (has_lost_files and seedless in with_files):
            own = OwnJob(job_id, resolved.seeds, reused)
            present.setdefault(seedless, []).append(own)
    return {digest: tuple(jobs) for digest, jobs in present.items()}


def _link(
    study_id: UUID,
    cell: Cell,
    which: str | OwnJob,
    new: Mapping[str, UUID],
    others: Mapping[str, UUID],
) -> dict[str, object]:
    if isinstance(which, OwnJob):
        job_id, reused = which.job_id, which.reused
    else:
        job_id, reused = new.get(which) or others[which], which in others
    return {
        "study_id": study_id,
        "job_id": job_id,
        "base_model": cell.base_model,
        "task": cell.task,
        "method": cell.method,
        "budget": cell.budget,
        "role": cell.role,
        "over_budget": cell.over_budget,
        "reused": reused,
    }
