"""What a request has stored, and the one error that it was refused with."""

from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.tables import Job, Study

Sessions = sessionmaker[Session]


def stored(sessions: Sessions) -> tuple[int, int]:
    """How many studies and jobs there are."""
    with sessions.begin() as session:
        counts = [session.scalars(select(func.count()).select_from(t)).one() for t in (Study, Job)]
    return counts[0], counts[1]


def fault(answer: Any) -> dict[str, Any]:
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    (found,) = answer.json()["errors"]
    return found
