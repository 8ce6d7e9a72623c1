"""Sharing of studies with other projects, whose members can read them.

A shared study is one row. What it makes readable follows from it in `adaptlab_db.visibility`: the
study, its jobs with their results, and the base models that they adapt.
"""

from uuid import UUID

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from adaptlab_answers.studies import StudyView
from adaptlab_db.tables import Project, Study, StudyShare
from adaptlab_db.visibility import ACROSS_PROJECTS
from adaptlab_services.errors import Absent, Forbidden, StateConflict
from adaptlab_services.models.dataset_sharing import NewShare
from adaptlab_services.people import access, audit
from adaptlab_services.studies import studies
from adaptlab_services.studies.study_rows import study_row


def share(session: Session, study: str, new: NewShare) -> StudyView:
    """Share a study with another project; repeated calls change nothing.

    Raises:
        Absent: there is no such study, or the caller is no member of the other project.
        Forbidden: the caller is neither its owner nor an admin of its project, or only a reader of
            the other one.
        StateConflict: the study belongs to that project.
    """
    row = _own(session, study)
    other = access.receiving_project(session, new.project)
    audit.note(session, name=row.name, project=new.project)
    if other == row.project_id:
        raise StateConflict(
            f"The study {row.name!r} belongs to the project {new.project!r} already."
        )
    shared = insert(StudyShare).values(project_id=other, study_id=row.id)
    session.execute(shared.on_conflict_do_nothing(), execution_options=ACROSS_PROJECTS)
    return studies.get(session, str(row.id))


def take_back(session: Session, study: str, project: str) -> None:
    """Stop sharing a study with a project.

    Admins of that project can do it, too.

    Raises:
        Absent: there is no such study, or it is not shared with that project.
        Forbidden: the caller is neither its owner nor an admin of one of both projects.
    """
    is_receiver = access.administered_project(session, project) is not None
    row = study_row(session, study) if is_receiver else _own(session, study)
    audit.note(session, name=row.name, project=project)
    other = select(Project.id).where(Project.name == project).scalar_subquery()
    mine = (StudyShare.study_id == row.id, StudyShare.project_id == other)
    shared = delete(StudyShare).where(*mine).returning(StudyShare.study_id)
    if session.scalars(shared, execution_options=ACROSS_PROJECTS).one_or_none() is None:
        _own(session, study)
        raise Absent("share of the study with the project", project)


def may_share(session: Session, study_id: UUID) -> bool:
    """Return True if the caller may share a study, for pages with a form."""
    try:
        _own(session, str(study_id))
    except (Absent, Forbidden):
        return False
    return True


def _own(session: Session, study: str) -> Study:
    """Return a study that the caller may share."""
    row = study_row(session, study)
    access.check_owner(session, row.owner_id, row.project_id)
    return row
