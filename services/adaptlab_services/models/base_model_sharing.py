"""Sharing of base models with other projects, and taking them back.

The other project gets a row of its own that names the same job, which it can read, but not change.
"""

from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, delete, exists, func, insert, or_, select
from sqlalchemy.orm import Session

from adaptlab_answers.models import BaseModelView
from adaptlab_db.job_states import ACTIVE_STATES
from adaptlab_db.tables import BaseModel, Job, Project, Study, StudyJob
from adaptlab_db.visibility import ACROSS_PROJECTS
from adaptlab_services.errors import Absent, Forbidden, StateConflict
from adaptlab_services.models import base_models
from adaptlab_services.models.dataset_deletion import named
from adaptlab_services.models.dataset_sharing import NewShare
from adaptlab_services.people import access, audit

NEXT_STEP = "Cancel studies and jobs there that are no longer needed; their results stay."


Conditions = tuple[ColumnElement[bool], ...]


class _Place(NamedTuple):
    project_id: int
    name: str
    job_id: UUID
    owner_id: int
    state: str


def share(session: Session, name: str, new: NewShare) -> BaseModelView:
    """Share a base model with another project; repeated calls change nothing.

    Raises:
        Absent: there is no such base model, or the caller is no member of the other project.
        Forbidden: the caller is neither its owner nor an admin of its project, or only a reader of
            the other one.
        StateConflict: it is not ready, or the other project has one of that name.
    """
    place = _own(session, name)
    other = access.receiving_project(session, new.project)
    audit.note(session, project=new.project)
    if other == place.project_id:
        raise StateConflict(
            f"The base model {name!r} belongs to the project {new.project!r} already."
        )
    if place.state != "succeeded":
        detail = f"The base model {name!r} is not ready: its job has the state {place.state}."
        raise StateConflict(f"{detail} Share it when the job has succeeded.", place.state)
    base_models.lock_table(session)
    there = (BaseModel.project_id == other, BaseModel.name == name)
    before = session.execute(
        select(BaseModel.job_id).where(*there), execution_options=ACROSS_PROJECTS
    ).one_or_none()
    if before is None:
        row = {"project_id": other, "name": name, "job_id": place.job_id}
        session.execute(insert(BaseModel).values(**row, shared_from=place.project_id))
    elif before.job_id != place.job_id:
        raise StateConflict(
            f"The project {new.project!r} has another base model named {name!r}. Names of base "
            "models cannot be changed: create this one again under another name."
        )
    with access.inside(session, place.project_id):
        return base_models.get(session, name)


def take_back(session: Session, name: str, project: str) -> None:
    """Stop sharing a base model with a project.

    Jobs there that have ended keep what they recorded. Admins of that project can do it, too.

    Raises:
        Absent: there is no such base model, or it is not shared with that project.
        Forbidden: the caller is neither its owner nor an admin of one of both projects.
        StateConflict: a study or an unfinished job of that project needs it.
    """
    audit.note(session, project=project)
    there = _received(session, name, project) or _given(session, name, project)
    # Jobs that name the base model are created while this table is read, so that none is later.
    base_models.lock_table(session)
    other = session.scalars(select(Project.id).where(Project.name == project)).one_or_none()
    query = select(BaseModel.name).where(*there)
    shared = session.scalars(query, execution_options=ACROSS_PROJECTS).one_or_none()
    if other is None or shared is None:
        raise Absent("share of the base model with the project", project)
    if uses := tuple(_uses(session, other, name)):
        is_member = access.is_joined(session, project)
        needed_for = "; ".join(uses) if is_member else "things that you cannot see"
        raise StateConflict(
            f"The project {project!r} needs the base model {name!r} for {needed_for}. {NEXT_STEP}"
        )
    session.execute(delete(BaseModel).where(*there), execution_options=ACROSS_PROJECTS)


def _given(session: Session, name: str, project: str) -> Conditions:
    """Return the conditions on the row that the caller shares with a project."""
    place = _own(session, name)
    other = select(Project.id).where(Project.name == project).scalar_subquery()
    return (
        BaseModel.project_id == other,
        BaseModel.job_id == place.job_id,
        BaseModel.shared_from == place.project_id,
    )


def _received(session: Session, name: str, project: str) -> Conditions | None:
    """Return the conditions on the row that an admin's project received.

    None if the caller is no admin of it, or it received none of that name.
    """
    other = access.administered_project(session, project)
    there = (
        BaseModel.project_id == other,
        BaseModel.name == name,
        BaseModel.shared_from.is_not(None),
    )
    query = select(exists().where(*there))
    is_there = other is not None and session.scalar(query, execution_options=ACROSS_PROJECTS)
    return there if is_there else None


def may_share(session: Session, name: str) -> bool:
    """Return True if the caller may share a base model, for pages with a form."""
    try:
        return _own(session, name).state == "succeeded"
    except (Absent, Forbidden):
        return False


def _own(session: Session, name: str) -> _Place:
    """Return a base model that the caller may share.

    It is the original, never the row of a receiving project.
    """
    columns = (BaseModel.project_id, BaseModel.name, BaseModel.job_id)
    rows = session.execute(
        select(*columns, Job.owner_id, Job.state)
        .join(Job, Job.id == BaseModel.job_id)
        .where(BaseModel.name == name, BaseModel.shared_from.is_(None))
    )
    places = [_Place(*row) for row in rows]
    place = access.nearest(session, [(one.project_id, one) for one in places])
    if place is None:
        raise Absent("base model", name)
    access.check_owner(session, place.owner_id, place.project_id)
    return place


def _uses(session: Session, project_id: int, name: str) -> Iterator[str]:
    """Yield what needs a base model in a project, in words.

    The project need not be visible.
    """
    other_base = func.jsonb_build_object(
        "evaluation_bases", func.jsonb_build_array(func.jsonb_build_object("name", name))
    )
    jobs = (
        select(Job.id)
        .where(Job.project_id == project_id, Job.state.in_(ACTIVE_STATES))
        .where(or_(Job.base_model == name, Job.resolved_spec.contains(other_base)))
        .order_by(Job.created_at, Job.id)
    )
    has_row = exists().where(StudyJob.study_id == Study.id, StudyJob.base_model == name)
    listed = Study.spec["base_models"].contains([name])
    studies = (
        select(Study.name)
        .where(Study.project_id == project_id, Study.cancelled_at.is_(None))
        .where(or_(listed, has_row))
        .order_by(Study.name)
    )
    found = session.scalars(studies, execution_options=ACROSS_PROJECTS)
    yield from named(found, "study", "studies")
    active = session.scalars(jobs, execution_options=ACROSS_PROJECTS)
    yield from named(map(str, active), "unfinished job", "unfinished jobs")
