"""Deletion of studies, with the jobs that only they have."""

from uuid import UUID

from sqlalchemy import delete, exists, select
from sqlalchemy.orm import Session, aliased

from adaptlab_answers.studies import DeletedStudy
from adaptlab_db.tables import IdempotencyKey, Study, StudyJob
from adaptlab_services.errors import StateConflict
from adaptlab_services.jobs import job_deletion, study_lock
from adaptlab_services.people import access, audit
from adaptlab_services.studies.study_rows import locked_row
from adaptlab_services.studies.study_views import counted, study_state


def delete_study(session: Session, study: str, *, with_jobs: bool = False) -> DeletedStudy:
    """Delete a study, with its decisions.

    `with_jobs` also deletes its jobs that were created for a study and that nothing else needs.
    Other jobs stay with their results.

    Raises:
        Absent: there is no such study.
        Forbidden: the caller is no admin of its project.
        StateConflict: it is running.
    """
    study_lock.take(session)
    row = locked_row(session, study, even_cancelled=True)
    access.check_admin(session, row.project_id)
    study_id, name = row.id, row.name
    counts = counted(session, [study_id])[study_id]
    state = study_state(row, counts)
    if state == "running":
        raise StateConflict(f"The study {name!r} is running. Cancel it first.", state)
    created = _created_for_studies(session, study_id) if with_jobs else ()
    audit.note(session, name=name, with_jobs=with_jobs)
    session.expunge(row)
    session.execute(delete(IdempotencyKey).where(IdempotencyKey.study_id == study_id))
    session.execute(delete(Study).where(Study.id == study_id))
    deleted = job_deletion.delete_unneeded(session, created)
    return DeletedStudy(
        id=study_id,
        name=name,
        deleted_jobs=len(deleted),
        kept_jobs=sum(counts.values()) - len(deleted),
    )


def _created_for_studies(session: Session, study_id: UUID) -> tuple[UUID, ...]:
    """Return the study's jobs that no user submitted directly."""
    mine, any_of = aliased(StudyJob), aliased(StudyJob)
    created = exists().where(any_of.job_id == mine.job_id, any_of.reused.is_(False))
    query = select(mine.job_id).where(mine.study_id == study_id, created).distinct()
    return tuple(session.scalars(query))
