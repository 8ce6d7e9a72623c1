"""Staged bytes: rows of an artifact that is not readable yet.

They are written in many units of work.
"""

from collections.abc import Generator, Sequence
from contextlib import closing

import psycopg
from psycopg.rows import TupleRow
from sqlalchemy import delete, func, insert, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from adaptlab_db.errors import BytesMissing
from adaptlab_db.stores.store import POSTGRES
from adaptlab_db.tables import Artifact, ArtifactChunk

READ_ROWS = 8
"""Number of rows of 1 MiB that are read at a time."""
_READ = """
COPY (
    SELECT content FROM artifact_chunks
    WHERE sha256 = %s AND number BETWEEN %s AND %s ORDER BY number
) TO STDOUT (FORMAT BINARY)
"""


def stage(session: Session, name: str, size: int) -> None:
    """Begin to stage `size` bytes under a name that is no digest."""
    arriving = {"state": "uploading", "reason": "It has not arrived as a whole."}
    session.execute(insert(Artifact).values(sha256=name, size=size, **arriving))


UNHURRIED = func.set_config("synchronous_commit", "off", True)
"""Select this in a unit of work whose commit need not wait for the disk.

A later commit that waits, such as the one that completes an upload, also waits for these.
"""


_ROWS = ArtifactChunk.metadata.tables[ArtifactChunk.__tablename__]
# Of the table, because the ORM takes twice the time for the same statement.
_ARRIVING = upsert(_ROWS)
_PUT_ROW = _ARRIVING.on_conflict_do_update(
    index_elements=["sha256", "number"], set_={"content": _ARRIVING.excluded.content}
)


def put_rows(session: Session, name: str, first: int, rows: Sequence[bytes]) -> None:
    """Write rows of staged bytes in place of earlier ones.

    The rows are numbered from `first` on.
    """
    numbered = ({"number": number, "content": row} for number, row in enumerate(rows, first))
    session.execute(_PUT_ROW, [{"sha256": name} | row for row in numbered])


ASIDE = 2**30
"""Offset of rows that will replace others: until then, their numbers are lower by this."""


def take_the_place(session: Session, name: str, first: int, count: int) -> None:
    """Replace rows numbered from `first` on by those written `ASIDE` lower."""
    mine = ArtifactChunk.sha256 == name
    options = {"synchronize_session": False}
    replaced = ArtifactChunk.number.between(first, first + count - 1)
    session.execute(delete(ArtifactChunk).where(mine, replaced), execution_options=options)
    aside = ArtifactChunk.number.between(first - ASIDE, first + count - 1 - ASIDE)
    moved = update(ArtifactChunk).where(mine, aside).values(number=ArtifactChunk.number + ASIDE)
    session.execute(moved, execution_options=options)


def forget_aside(session: Session, name: str) -> None:
    """Delete rows that were written aside and replaced no others."""
    session.execute(
        delete(ArtifactChunk).where(ArtifactChunk.sha256 == name, ArtifactChunk.number < 0),
        execution_options={"synchronize_session": False},
    )


def unstage(session: Session, name: str) -> None:
    """Delete a staged name, and the rows that still have it."""
    session.execute(
        delete(Artifact).where(Artifact.sha256 == name, Artifact.state == "uploading"),
        execution_options={"synchronize_session": False},
    )


def staged_bytes(
    session: Session, name: str, size: int, *, in_haste: bool = True
) -> Generator[bytes]:
    """Read staged bytes in order.

    Raises `BytesMissing` if there are fewer than `size`.

    With `in_haste`, a row is yielded while the database sends the next. The reader must then not
    pause for long, nor use the session before all is read or the generator is closed.
    """
    number, read = 0, 0
    while read < size:
        before = read
        with closing(_copied(session, name, number)) as rows:
            for content in rows if in_haste else list(rows):
                read += len(content)
                yield content
        if read == before:
            raise BytesMissing(POSTGRES, name)
        number += READ_ROWS


def _copied(session: Session, name: str, first: int) -> Generator[bytes]:
    """Read the next rows, each as soon as it arrives.

    By COPY instead of SELECT: the database keeps sending while a row is processed, and reading a
    row takes half the time.
    """
    pooled = session.connection()
    connection: psycopg.Connection[TupleRow] | None = pooled.connection.driver_connection
    assert connection is not None  # not returned to the pool
    span = (name, first, first + READ_ROWS - 1)
    try:
        with connection.cursor() as cursor, cursor.copy(_READ, span) as copy:
            copy.set_types(["bytea"])
            for (content,) in copy.rows():
                yield content
    except psycopg.OperationalError as error:  # not seen by SQLAlchemy
        if connection.closed:
            pooled.invalidate(error)
        raise OperationalError(_READ, span, error) from error
