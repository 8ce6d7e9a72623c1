"""Sharing of datasets with other projects, and taking them back.

The other project gets a row of its own with the same content, which nobody there can delete.
"""

from sqlalchemy import ColumnElement, delete, exists, insert, select
from sqlalchemy.orm import Session, undefer

from adaptlab.plugins.generated_words import NAME as GENERATED
from adaptlab.values import Name, Value
from adaptlab_answers.models import DatasetView
from adaptlab_db.tables import Dataset, Project
from adaptlab_db.visibility import ACROSS_PROJECTS
from adaptlab_services.errors import Absent, Forbidden, StateConflict
from adaptlab_services.models import dataset_deletion, datasets
from adaptlab_services.people import access, audit


class NewShare(Value):
    """The project with which something is shared."""

    project: Name


def share(session: Session, name: str, new: NewShare) -> DatasetView:
    """Share a dataset with another project; repeated calls change nothing.

    Raises:
        Absent: there is no such dataset, or the caller is no member of the other project.
        Forbidden: the caller is neither its owner nor an admin of its project, or only a reader of
            the other one.
        StateConflict: it is itself shared or generated, or the other project has one of that name.
    """
    row = _own(session, name)
    other = access.receiving_project(session, new.project)
    audit.note(session, project=new.project)
    if other == row.project_id:
        raise StateConflict(f"The dataset {name!r} belongs to the project {new.project!r} already.")
    copied = {column.name: getattr(row, column.name) for column in Dataset.__table__.columns}
    copied |= {"project_id": other, "shared_from": row.project_id}
    del copied["created_at"]  # the time of sharing
    there = (Dataset.project_id == other, Dataset.name == name)
    before = session.execute(
        select(Dataset.shared_from).where(*there), execution_options=ACROSS_PROJECTS
    ).one_or_none()
    if before is None:
        session.execute(insert(Dataset).values(copied))
    elif before.shared_from != row.project_id:
        raise StateConflict(
            f"The project {new.project!r} has another dataset named {name!r}. Upload this one "
            "under another name."
        )
    return datasets.get(session, name)


def take_back(session: Session, name: str, project: str) -> None:
    """Stop sharing a dataset with a project.

    Admins of that project can do it, too.

    Raises:
        Absent: there is no such dataset, or it is not shared with that project.
        Forbidden: the caller is neither its owner nor an admin of one of both projects.
        StateConflict: a base model, a study or an unfinished job of that project needs it.
    """
    audit.note(session, project=project)
    other = access.administered_project(session, project)
    there = (Dataset.project_id == other, Dataset.name == name, Dataset.shared_from.is_not(None))
    if other is None or not _is_there(session, there):
        row = _own(session, name)
        other = session.scalars(select(Project.id).where(Project.name == project)).one_or_none()
        there = (
            Dataset.project_id == other,
            Dataset.name == name,
            Dataset.shared_from == row.project_id,
        )
    shared = select(Dataset.artifact_sha256).where(*there).with_for_update()
    digest = session.scalars(shared, execution_options=ACROSS_PROJECTS).one_or_none()
    if other is None or digest is None:
        raise Absent("share of the dataset with the project", project)
    if uses := dataset_deletion.uses_in(session, other, name, digest):
        is_member = access.is_joined(session, project)
        named = "; ".join(uses) if is_member else "things that you cannot see"
        raise StateConflict(
            f"The project {project!r} needs the dataset {name!r} for {named}. "
            f"{dataset_deletion.NEXT_STEP}"
        )
    session.execute(delete(Dataset).where(*there), execution_options=ACROSS_PROJECTS)


def _is_there(session: Session, there: tuple[ColumnElement[bool], ...]) -> bool:
    query = select(exists().where(*there))
    return bool(session.scalar(query, execution_options=ACROSS_PROJECTS))


def may_share(session: Session, name: str) -> bool:
    """Return True if the caller may share a dataset, for pages with a form."""
    try:
        _own(session, name)
    except (Absent, Forbidden, StateConflict):
        return False
    return True


def _own(session: Session, name: str) -> Dataset:
    """Return a dataset that the caller may share, locked."""
    if name == GENERATED:
        raise StateConflict(
            f"The dataset {GENERATED!r} is part of every server and needs no sharing."
        )
    query = select(Dataset).where(Dataset.name == name)
    whole = query.options(undefer(Dataset.field_values), undefer(Dataset.buckets))
    rows = session.scalars(whole.with_for_update(key_share=True)).all()
    # With several projects in view, the copies elsewhere are not other datasets of that name.
    originals = [row for row in rows if row.shared_from is None]
    row = access.nearest(session, [(one.project_id, one) for one in originals or rows])
    if row is None:
        raise Absent("dataset", name)
    if row.shared_from is not None:
        raise StateConflict(
            f"The dataset {name!r} is shared by another project. Share it from there."
        )
    access.check_owner(session, row.owner_id, row.project_id)
    return row
