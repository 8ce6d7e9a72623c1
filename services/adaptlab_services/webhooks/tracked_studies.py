"""Studies that trackers get, noted for the API to send."""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from adaptlab_db.tables import Study, TrackedStudy, Tracker


def note_changes(session: Session, study_ids: Collection[UUID]) -> None:
    """Have studies sent soon to the trackers of their projects."""
    if not study_ids:
        return
    found = session.execute(
        select(Tracker.id, Study.id)
        .join(Study, Study.project_id == Tracker.project_id)
        .where(Study.id.in_(study_ids))
        .order_by(Tracker.id, Study.id)  # so that two who do this at once lock in one order
    )
    rows = [{"tracker_id": tracker, "study_id": study} for tracker, study in found]
    if not rows:
        return
    row = TrackedStudy
    new = {"changes": row.changes + 1, "due_at": func.clock_timestamp()}
    written = insert(row).on_conflict_do_update(index_elements=["tracker_id", "study_id"], set_=new)
    session.execute(written, rows)
