"""Cache of computed tables in the database, by the digest of their inputs."""

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from datetime import timedelta

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.comparisons.table_comparison import TableComparison
from adaptlab_db.session import one_by_one
from adaptlab_db.tables import ComparisonResult

MOST_BYTES = 512 * 2**20
"""Limit on stored JSON; Postgres compresses it to about a tenth."""
LONGEST_UNUSED = timedelta(days=30)
USE_NOTED_AFTER = timedelta(hours=1)
LOCK = 0x63_6D_70_72
"""Class of the advisory locks for computing tables: "cmpr"."""


def kept(session: Session, digests: Collection[str]) -> Mapping[str, str]:
    """Return the JSON of the stored tables among these, by digest."""
    row = ComparisonResult
    rows = session.execute(
        select(row.digest, row.content, row.used_at < func.now() - USE_NOTED_AFTER).where(
            row.digest.in_(digests)
        )
    ).all()
    old = [digest for digest, _, is_old in rows if is_old]
    if old:
        session.execute(
            update(row).where(row.digest.in_(old)).values(used_at=func.clock_timestamp()),
            execution_options={"synchronize_session": False},
        )
    return {digest: content for digest, content, _ in rows}


def missing(session: Session, digests: Collection[str]) -> frozenset[str]:
    """Return the digests without a stored table; no content is read."""
    row = ComparisonResult
    stored = session.scalars(select(row.digest).where(row.digest.in_(digests)))
    return frozenset(digests) - frozenset(stored)


def keep(session: Session, digest: str, table: TableComparison) -> None:
    """Store a table, and delete what is too old or exceeds the limit."""
    content = table.model_dump_json()
    values = {"digest": digest, "content": content, "size_bytes": len(content)}
    session.execute(insert(ComparisonResult).values(values).on_conflict_do_nothing())
    forget(session)


def forget(session: Session, most_bytes: int = MOST_BYTES) -> None:
    """Delete old tables, and above the limit the least recently used ones."""
    row = ComparisonResult
    above = func.sum(row.size_bytes).over(order_by=(row.used_at.desc(), row.digest))
    sized = select(row.digest, above.label("above")).subquery()
    too_much = select(sized.c.digest).where(sized.c.above > most_bytes)
    is_old = row.used_at < func.now() - LONGEST_UNUSED
    session.execute(
        delete(row).where(is_old | row.digest.in_(too_much)),
        execution_options={"synchronize_session": False},
    )


@contextmanager
def claimed(sessions: sessionmaker[Session], digest: str) -> Generator[bool]:
    """Yield True if no other process, on any server, computes this table.

    The lock belongs to a connection outside a transaction and ends with the process.
    """
    lock = (LOCK, int.from_bytes(bytes.fromhex(digest[:8]), signed=True))
    with one_by_one(sessions) as session:
        mine = session.scalars(select(func.pg_try_advisory_lock(*lock))).one()
        try:
            yield mine
        finally:
            if mine:
                session.execute(select(func.pg_advisory_unlock(*lock)))
