"""Deletion of uploaded model folders that nothing needs any more."""

from collections.abc import Iterable, Iterator

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from adaptlab.specs.spec import UPLOADED
from adaptlab_answers.models import ModelFolderView
from adaptlab_db.job_states import ACTIVE_STATES, LOST_STATES
from adaptlab_db.tables import BaseModel, Job, UploadedFolder
from adaptlab_services.errors import Absent, Forbidden, StateConflict
from adaptlab_services.models.dataset_deletion import named
from adaptlab_services.models.uploaded_folders import KIND
from adaptlab_services.people import access


def delete_folder(session: Session, name: str) -> None:
    """Delete an uploaded folder.

    It is that of the request's project if several match. Its files are collected later, unless
    something else has the same.

    Raises:
        Absent: no project, or several other projects, have such a model folder.
        Forbidden: the caller may not change it.
        StateConflict: a base model or an unfinished job reads its files.
    """
    columns = UploadedFolder.project_id, UploadedFolder.owner_id
    rows = session.execute(select(*columns).where(UploadedFolder.name == name)).all()
    place = access.nearest(session, [(row.project_id, row) for row in rows])
    if place is None:
        raise Absent(KIND, name)
    access.check_change(session, place.owner_id, place.project_id)
    mine = UploadedFolder.project_id == place.project_id, UploadedFolder.name == name
    # Locked first, so that imports of simultaneous requests are there or do not find the folder.
    if session.scalars(select(UploadedFolder.name).where(*mine).with_for_update()).first() is None:
        raise Absent(KIND, name)
    if uses := tuple(_uses(session, place.project_id, name)):
        raise StateConflict(
            f"The model folder {name!r} is needed by {'; '.join(uses)}. A base model always needs "
            "the files that it was imported from. Cancel jobs that you no longer need."
        )
    session.execute(delete(UploadedFolder).where(*mine))


def may_delete(session: Session, folders: Iterable[ModelFolderView]) -> frozenset[str]:
    """Return the names of the listed folders that the caller may delete.

    Those that base models need are left out; an unfinished job may need one of the others.
    """
    unused = {folder.name for folder in folders if not folder.base_models}
    columns = UploadedFolder.name, UploadedFolder.project_id, UploadedFolder.owner_id
    rows = session.execute(select(*columns).where(UploadedFolder.name.in_(unused)))
    return frozenset(row.name for row in rows if _may_change(session, row.owner_id, row.project_id))


def _may_change(session: Session, owner_id: int, project_id: int) -> bool:
    try:
        access.check_change(session, owner_id, project_id)
    except Forbidden:
        return False
    return True


def _uses(session: Session, project_id: int, name: str) -> Iterator[str]:
    """Yield what reads the folder, in words."""
    read = Job.resolved_spec[("model_folder", "folder")].astext == f"{UPLOADED}/{name}"
    adapter = Job.resolved_spec[("adapter", "folder")].astext == f"{UPLOADED}/{name}"
    of_project = Job.project_id == project_id
    imports = of_project & (Job.kind == "import") & read
    adapts = of_project & (Job.kind == "adapt") & adapter
    bases = (
        select(BaseModel.name)
        .join(Job, Job.id == BaseModel.job_id)
        .where(imports, Job.state.not_in(LOST_STATES))
        .order_by(BaseModel.name)
    )
    jobs = (
        select(Job.id)
        .where(imports | adapts, Job.state.in_(ACTIVE_STATES))
        .order_by(Job.created_at, Job.id)
    )
    yield from named(session.scalars(bases), "base model", "base models")
    yield from named(map(str, session.scalars(jobs)), "unfinished job", "unfinished jobs")
