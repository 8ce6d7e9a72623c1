"""Names under which a project has what it fetched from a hub."""

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session

from adaptlab.weights.hub_name import HubName
from adaptlab_db.tables import Dataset, UploadedFolder
from adaptlab_services.people import access


def newest_of_hub(
    session: Session,
    table: type[Dataset] | type[UploadedFolder],
    name: HubName,
    *also: ColumnElement[bool],
) -> str | None:
    """Return the name of the newest row of the project from a repository.

    Its revision is that of `name`, by the name or the commit. None if there is no such row.
    """
    origin = table.origin
    at = (origin[key].astext == name.revision for key in ("revision", "commit"))
    return session.scalars(
        select(table.name)
        .where(table.project_id == access.project_of(session), *also)
        .where(origin["repository"].astext == name.repository, or_(*at))
        .order_by(table.created_at.desc())
        .limit(1)
    ).one_or_none()
