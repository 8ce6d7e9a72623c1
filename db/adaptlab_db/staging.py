"""Bytes that arrive over many units of work, as rows of an artifact that nobody can read yet."""

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
"""How many rows of 1 MiB are asked for at a time."""
_READ = """
COPY (
    SELECT content FROM artifact_chunks
    WHERE sha256 = %s AND number BETWEEN %s AND %s ORDER BY number
) TO STDOUT (FORMAT BINARY)
"""


def stage(session: Session, name: str, size: int) -> None:
    """Make room for so many bytes under a name that is no digest."""
    arriving = {"state": "uploading", "reason": "It has not arrived as a whole."}
    session.execute(insert(Artifact).values(sha256=name, size=size, **arriving))


UNHURRIED = func.set_config("synchronous_commit", "off", True)
"""To be selected in a unit of work whose commit need not wait for the disk.

Whoever says afterwards that the bytes are there waits for everything before it.
"""


_ROWS = ArtifactChunk.metadata.tables[ArtifactChunk.__tablename__]
# Of the table and not of the class: the ORM's way to the same statement takes twice the time.
_ARRIVING = upsert(_ROWS)
_PUT_ROW = _ARRIVING.on_conflict_do_update(
    index_elements=["sha256", "number"], set_={"content": _ARRIVING.excluded.content}
)


def put_rows(session: Session, name: str, first: int, rows: Sequence[bytes]) -> None:
    """Keep rows of staged bytes, numbered from `first` on, in place of earlier ones."""
    numbered = ({"number": number, "content": row} for number, row in enumerate(rows, first))
    session.execute(_PUT_ROW, [{"sha256": name} | row for row in numbered])


ASIDE = 2**30
"""Rows that may take the place of others have their numbers less this, until they do."""


def take_the_place(session: Session, name: str, first: int, count: int) -> None:
    """Put rows that were kept aside in the place of those numbered from `first` on."""
    mine = ArtifactChunk.sha256 == name
    options = {"synchronize_session": False}
    replaced = ArtifactChunk.number.between(first, first + count - 1)
    session.execute(delete(ArtifactChunk).where(mine, replaced), execution_options=options)
    aside = ArtifactChunk.number.between(first - ASIDE, first + count - 1 - ASIDE)
    moved = update(ArtifactChunk).where(mine, aside).values(number=ArtifactChunk.number + ASIDE)
    session.execute(moved, execution_options=options)


def forget_aside(session: Session, name: str) -> None:
    """Let go of rows that were kept aside and took nobody's place."""
    session.execute(
        delete(ArtifactChunk).where(ArtifactChunk.sha256 == name, ArtifactChunk.number < 0),
        execution_options={"synchronize_session": False},
    )


def unstage(session: Session, name: str) -> None:
    """Let go of a name, and of the rows that are still under it."""
    session.execute(
        delete(Artifact).where(Artifact.sha256 == name, Artifact.state == "uploading"),
        execution_options={"synchronize_session": False},
    )


def staged_bytes(
    session: Session, name: str, size: int, *, in_haste: bool = True
) -> Generator[bytes]:
    """Staged bytes in order; raises `BytesMissing` where they are not so many.

    In haste a row is handed on while the database sends the next. Then whoever reads may take no
    long pauses, nor use the session for anything else before all is read or this is closed.
    """
    number, there = 0, 0
    while there < size:
        before = there
        with closing(_copied(session, name, number)) as rows:
            for content in rows if in_haste else list(rows):
                there += len(content)
                yield content
        if there == before:
            raise BytesMissing(POSTGRES, name)
        number += READ_ROWS


def _copied(session: Session, name: str, first: int) -> Generator[bytes]:
    """The next rows, each as soon as it is there.

    Copied, not selected: the database goes on sending while a row is looked at, and a row takes
    half the time to read.
    """
    pooled = session.connection()
    connection: psycopg.Connection[TupleRow] | None = pooled.connection.driver_connection
    assert connection is not None  # it was not given back
    span = (name, first, first + READ_ROWS - 1)
    try:
        with connection.cursor() as cursor, cursor.copy(_READ, span) as copy:
            copy.set_types(["bytea"])
            for (content,) in copy.rows():
                yield content
    except psycopg.OperationalError as error:  # which SQLAlchemy has not seen
        if connection.closed:
            pooled.invalidate(error)
        raise OperationalError(_READ, span, error) from error
