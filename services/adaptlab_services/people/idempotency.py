"""Idempotency keys: a request that is sent twice creates one job or study."""

import hashlib
import json
from datetime import timedelta
from uuid import UUID

from sqlalchemy import delete, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from adaptlab.values import Value
from adaptlab_db.tables import IdempotencyKey
from adaptlab_services.errors import IdempotencyMismatch
from adaptlab_services.people import access

KEPT_FOR = timedelta(days=7)
LONGEST_KEY = 255


def request_digest(session: Session, spec: Value) -> str:
    """Return the digest that requests with the same key must share.

    It covers the fields that were set, and the project.
    """
    request = spec.model_dump(mode="json", exclude_unset=True)
    request["project"] = access.project_of(session)
    canonical = json.dumps(request, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def answered(session: Session, owner_id: int, key: str, digest: str) -> UUID | None:
    """Return the job or study created by an earlier request with this key.

    None if there was no such request. Locks the key until the unit of work ends: of two
    simultaneous requests, the second waits and then finds what the first created.

    Raises:
        IdempotencyMismatch: the key was used for another request.
    """
    session.execute(
        text("SELECT pg_advisory_xact_lock(hashtextextended(:key, :owner))"),
        {"key": key, "owner": owner_id},
    )
    mine = (IdempotencyKey.owner_id == owner_id) & (IdempotencyKey.key == key)
    row = session.execute(
        select(
            IdempotencyKey.request_digest,
            func.coalesce(IdempotencyKey.job_id, IdempotencyKey.study_id).label("created_id"),
            (IdempotencyKey.created_at < func.clock_timestamp() - KEPT_FOR).label("is_over"),
        ).where(mine)
    ).one_or_none()
    if row is not None and row.is_over:
        session.execute(delete(IdempotencyKey).where(mine))
        return None
    if row is not None and row.request_digest != digest:
        raise IdempotencyMismatch(key)
    return None if row is None else row.created_id


def remember(
    session: Session,
    owner_id: int,
    key: str,
    digest: str,
    job_id: UUID | None = None,
    study_id: UUID | None = None,
) -> None:
    """Store the job or study that answers this key from now on."""
    session.execute(
        insert(IdempotencyKey).values(
            owner_id=owner_id, key=key, request_digest=digest, job_id=job_id, study_id=study_id
        )
    )
