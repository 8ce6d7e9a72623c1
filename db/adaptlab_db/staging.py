"""Bytes that arrive over many units of work, as rows of an artifact that nobody can read yet."""

from collections.abc import Iterator

from sqlalchemy import delete, func, insert, select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Session

from adaptlab_db.errors import BytesMissing
from adaptlab_db.stores.postgres import BINARY
from adaptlab_db.stores.store import POSTGRES
from adaptlab_db.tables import Artifact, ArtifactChunk

READ_ROWS = 4
"""How many rows of 1 MiB are asked for at a time."""


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


def put_row(session: Session, name: str, number: int, content: bytes) -> None:
    """Keep one row of staged bytes, in place of an earlier one of that number."""
    session.execute(_PUT_ROW, {"sha256": name, "number": number, "content": content})


def unstage(session: Session, name: str) -> None:
    """Let go of a name, and of the rows that are still under it."""
    session.execute(
        delete(Artifact).where(Artifact.sha256 == name, Artifact.state == "uploading"),
        execution_options={"synchronize_session": False},
    )


def staged_bytes(session: Session, name: str, size: int) -> Iterator[bytes]:
    """Staged bytes in order; raises `BytesMissing` where they are not so many."""
    number, there = 0, 0
    while there < size:
        rows = session.scalars(
            select(ArtifactChunk.content)
            .where(
                ArtifactChunk.sha256 == name,
                ArtifactChunk.number.between(number, number + READ_ROWS - 1),
            )
            .order_by(ArtifactChunk.number),
            execution_options=BINARY,
        ).all()
        if not rows:
            raise BytesMissing(POSTGRES, name)
        for content in rows:
            there += len(content)
            yield content
        number += READ_ROWS
