"""The row of a study, and its owner and project.

The row is read by id or name, with or without a lock.
"""

import json

from sqlalchemy import Select, func, select
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.orm import Session, aliased

from adaptlab.studies.study import StudySpec
from adaptlab_db.tables import Project, Study, StudyShare, User
from adaptlab_db.visibility import ACROSS_PROJECTS
from adaptlab_services import short_ids
from adaptlab_services.errors import Absent, StateConflict
from adaptlab_services.people import access
from adaptlab_services.studies.study_views import Belonging

MOST_NAMES = 1000
"""Latest studies among which the nearest to a mistyped name are looked for."""


def study_row(session: Session, study: str) -> Study:
    """Return the study with this id or name; raises `Absent`."""
    return _one(session, study, select(Study))


def locked_row(session: Session, study: str, *, even_cancelled: bool = False) -> Study:
    """Return a study and lock it until the unit of work ends.

    Raises `Absent`, and `StateConflict` for a cancelled study unless `even_cancelled`.
    """
    row = _one(session, study, select(Study).with_for_update())
    if row.cancelled_at is not None and not even_cancelled:
        detail = f"The study {row.name!r} was cancelled. Clone it under another name."
        raise StateConflict(detail, state="cancelled")
    return row


def belonging(session: Session, study: Study) -> Belonging:
    """Return the names of a study's owner and projects.

    Only members of its own project learn with which others it is shared.
    """
    receiving = aliased(Project)
    shared = (
        select(func.array_agg(aggregate_order_by(receiving.name, receiving.name)))
        .join_from(StudyShare, receiving, receiving.id == StudyShare.project_id)
        .where(StudyShare.study_id == Study.id)
        .scalar_subquery()
    )
    query = (
        select(User.name, Project.name, shared)
        .select_from(Study)
        .join(User, User.id == Study.owner_id)
        .join(Project, Project.id == Study.project_id)
    )
    # The study is visible; the projects that it is shared with need not be.
    found = session.execute(query.where(Study.id == study.id), execution_options=ACROSS_PROJECTS)
    owner, project, names = found.one()
    if access.is_shared(session, study.project_id):
        return Belonging(owner, project, shared_from=project)
    return Belonging(owner, project, shared_with=tuple(names or ()))


def spec_of(study: Study) -> StudySpec:
    """Return the spec of a study as it was sent."""
    return StudySpec.model_validate_json(json.dumps(study.spec))


def check_free(session: Session, name: str) -> None:
    """Raise `StateConflict` if the request's project has a study of this name."""
    here = Study.project_id == access.project_of(session)
    taken = session.scalars(select(Study.id).where(here, Study.name == name)).one_or_none()
    if taken is not None:
        detail = (
            f"A study named {name!r} already exists: {taken}. Extend it, or choose another name."
        )
        raise StateConflict(detail)


def _one(session: Session, study: str, query: Select[Study]) -> Study:
    """Return a study by its id, its name, or a part of its id.

    Of studies with that name, the one in the request's own project comes first.
    """
    if (whole := short_ids.in_full(study)) is not None:
        row = session.execute(query.where(Study.id == whole)).scalar_one_or_none()
        if row is not None:
            return row
    named = session.scalars(query.where(Study.name == study)).all()
    row = access.nearest(session, [(row.project_id, row) for row in named])
    if row is None and (meant := short_ids.study_id(session, study)) is not None:
        row = session.execute(query.where(Study.id == meant)).scalar_one_or_none()
    if row is None:
        names = session.scalars(select(Study.name).order_by(Study.id.desc()).limit(MOST_NAMES))
        raise Absent("study", study, names.all())
    return row
