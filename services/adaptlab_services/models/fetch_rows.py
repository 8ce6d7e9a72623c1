"""Rows of fetches from a hub: the active one of a name, and new ones."""

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from adaptlab.weights.hub_name import HubDatasetName, HubName
from adaptlab_answers.hub import FetchProgress
from adaptlab_db.tables import ACTIVE_FETCH_STATES, HubFetch, Project
from adaptlab_services.errors import StateConflict
from adaptlab_services.people.tokens import Principal

MOST_ACTIVE = 10
"""Limit on the active fetches of an owner."""


def active_of(session: Session, project_id: int, name: str) -> HubFetch | None:
    """Return the active fetch of a name, None if there is none.

    Of simultaneous requests for one name, the second waits for the first. The fetch does not end
    before the unit of work.
    """
    lock = select(Project.id).where(Project.id == project_id).with_for_update(key_share=True)
    session.execute(lock)
    named = HubFetch.project_id == project_id, HubFetch.name == name
    active = HubFetch.state.in_(ACTIVE_FETCH_STATES)
    query = select(HubFetch).where(*named, active).with_for_update()
    return session.scalars(query.execution_options(populate_existing=True)).one_or_none()


def insert_fetch(session: Session, principal: Principal, columns: Mapping[str, Any]) -> UUID:
    """Insert a fetch of the caller with columns of several types.

    Raises `StateConflict` if the caller has too many active ones.
    """
    active = HubFetch.state.in_(ACTIVE_FETCH_STATES)
    count = select(func.count()).select_from(HubFetch).where(active)
    if (session.scalar(count.where(HubFetch.owner_id == principal.user_id)) or 0) >= MOST_ACTIVE:
        raise StateConflict(
            f"You have {MOST_ACTIVE} active fetches, the limit. Wait or cancel one."
        )
    fetch_id = uuid.uuid4()
    own = {"id": fetch_id, "owner_id": principal.user_id}
    session.execute(insert(HubFetch).values(own | dict(columns)))
    return fetch_id


def source_of(row: HubFetch) -> str:
    """Return the name of what is fetched, as users write it."""
    name = HubName(repository=row.repository, revision=row.revision)
    return str(name if row.dataset is None else HubDatasetName(name=name, **row.dataset))


def seconds_left(row: HubFetch) -> float | None:
    """Return the time at the rate of this attempt, None before there is one."""
    if row.state != "running" or row.bytes_total is None or row.begun_at is None:
        return None
    gained = row.bytes_done - row.bytes_begun
    if gained <= 0:
        return None
    seconds = (datetime.now(UTC) - row.begun_at).total_seconds()
    return round(max(0.0, (row.bytes_total - row.bytes_done) * seconds / gained), 1)


def progress_of(row: HubFetch) -> FetchProgress:
    """Return the progress of a fetch, for the jobs that wait for it."""
    return FetchProgress.model_validate(
        {
            "id": row.id,
            "source": source_of(row),
            "commit": row.commit,
            "state": row.state,
            "bytes_done": row.bytes_done,
            "bytes_total": row.bytes_total,
            "seconds_left": seconds_left(row),
            "next_attempt_at": row.next_attempt_at if row.state == "pending" else None,
            "error": row.error,
            "link": f"/v1/hub-fetches/{row.id}",
        }
    )
