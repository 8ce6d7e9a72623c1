"""Ids as people type them: in full, or only the first or last characters."""

import re
from collections.abc import Sequence
from typing import Literal
from uuid import UUID

from sqlalchemy import String, cast, func, select
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab_db.tables import Job, Study
from adaptlab_services.errors import Absent

FEWEST = 4
"""Fewest characters of a short id; shorter ones are rarely unique."""
LENGTH = 32
MOST_NAMED = 5
"""Number of candidates that the error for an ambiguous id lists."""
_SHORT = re.compile(rf"[0-9a-f-]{{{FEWEST},35}}", re.IGNORECASE)


def job_id(session: Session, text: str) -> UUID:
    """Return the id of the job whose id is, begins with or ends with `text`.

    Raises:
        Absent: no job has such an id.
        InvalidSpec: several jobs have one.
    """
    whole = in_full(text)
    return whole if whole is not None else _only(session, "job", text)


def study_id(session: Session, text: str) -> UUID | None:
    """Return the id of a study likewise; None if none matches.

    `text` may then be a name.

    Raises:
        InvalidSpec: several studies have such an id.
    """
    try:
        return in_full(text) or _only(session, "study", text)
    except Absent:
        return None


def in_full(text: str) -> UUID | None:
    """Return the id if `text` is a complete one."""
    try:
        return UUID(text)
    except ValueError:
        return None


def _only(session: Session, kind: Literal["job", "study"], text: str) -> UUID:
    candidates = _candidates(session, Job if kind == "job" else Study, text)
    if not candidates:
        raise Absent(kind, text[:64])
    if len(candidates) == 1:
        return candidates[0]
    named = [str(candidate) for candidate in candidates[:MOST_NAMED]]
    more = " and others" if len(candidates) > MOST_NAMED else ""
    detail = (
        f"Several ids begin or end with {text!r}: {', '.join(named)}{more}. Give more characters."
    )
    problem = Problem(f"/{kind}_id", "ambiguous_id", detail, nearest=tuple(named))
    raise InvalidSpec(problem)


def _candidates(session: Session, table: type[Job] | type[Study], text: str) -> Sequence[UUID]:
    """Return the ids that begin with `text` (by the index) or end with it."""
    if not _SHORT.fullmatch(text):
        return ()
    digits = text.replace("-", "").lower()
    if not FEWEST <= len(digits) < LENGTH:
        return ()
    first, last = UUID(digits.ljust(LENGTH, "0")), UUID(digits.ljust(LENGTH, "f"))
    ends = func.replace(cast(table.id, String), "-", "").like(f"%{digits}")
    matches = select(table.id).where(table.id.between(first, last) | ends)
    return session.scalars(matches.order_by(table.id).limit(MOST_NAMED + 1)).all()
