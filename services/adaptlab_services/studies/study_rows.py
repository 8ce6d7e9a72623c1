"""The row of a study: found by id or name, locked, and what else is told of it."""

import json

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from adaptlab.studies.study import StudySpec
from adaptlab_db.tables import Project, Study, User
from adaptlab_services import short_ids
from adaptlab_services.errors import Conflict, NotFound
from adaptlab_services.people import access
from adaptlab_services.studies.study_views import Belonging


def study_row(session: Session, study: str) -> Study:
    """The study of this id or name; raises `NotFound`."""
    return _one(session, study, select(Study))


def locked_row(session: Session, study: str, *, even_cancelled: bool = False) -> Study:
    """The study, which nobody else changes until the unit of work ends.

    Raises `NotFound`, and `Conflict` for one that was cancelled.
    """
    row = _one(session, study, select(Study).with_for_update())
    if row.cancelled_at is not None and not even_cancelled:
        detail = f"The study {row.name!r} was cancelled. Clone it under another name."
        raise Conflict(detail, state="cancelled")
    return row


def belonging(session: Session, study: Study) -> Belonging:
    """Whose a study is."""
    query = (
        select(User.name, Project.name)
        .select_from(Study)
        .join(User, User.id == Study.owner_id)
        .join(Project, Project.id == Study.project_id)
    )
    owner, project = session.execute(query.where(Study.id == study.id)).one()
    return Belonging(owner, project)


def spec_of(study: Study) -> StudySpec:
    """The spec as it was sent."""
    return StudySpec.model_validate_json(json.dumps(study.spec))


def check_free(session: Session, name: str) -> None:
    """Raise `Conflict` if the request's project has a study of this name."""
    here = Study.project_id == access.project_of(session)
    taken = session.scalars(select(Study.id).where(here, Study.name == name)).one_or_none()
    if taken is not None:
        detail = (
            f"A study named {name!r} already exists: {taken}. Extend it, or choose another name."
        )
        raise Conflict(detail)


def _one(session: Session, study: str, query: Select[Study]) -> Study:
    """A study by its id, its name in the request's own project first, or a part of its id."""
    if (whole := short_ids.in_full(study)) is not None:
        found = session.execute(query.where(Study.id == whole)).scalar_one_or_none()
        if found is not None:
            return found
    named = session.scalars(query.where(Study.name == study)).all()
    found = access.nearest(session, [(row.project_id, row) for row in named])
    if found is None and (meant := short_ids.study_id(session, study)) is not None:
        found = session.execute(query.where(Study.id == meant)).scalar_one_or_none()
    if found is None:
        raise NotFound("study", study)
    return found
