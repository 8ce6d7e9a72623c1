"""Datasets of records, from a request or from an upload."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, JsonValue
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.records.checking import checked_records
from adaptlab.records.file_forms import LONGEST_FILE, FileForm
from adaptlab.records.gathering import Gatherer
from adaptlab.records.reading import Form, read_records
from adaptlab.records.record import Record
from adaptlab.values import Name, Value
from adaptlab_db.artifacts import ArtifactStore, StoredArtifact, streamed
from adaptlab_services.limits import quotas
from adaptlab_services.models import datasets
from adaptlab_services.models.datasets import Content, Origins, Uploaded
from adaptlab_services.people import access
from adaptlab_services.people.tokens import Principal
from adaptlab_services.storage import uploads
from adaptlab_services.storage.staged_content import staged

INLINE = "/records"
POINTER = "/upload"
FILE_POINTER = "/file"
READERS = 1
"""Files read at a time per process; several threads would take longer for each."""
Units = Callable[[], AbstractContextManager[Session]]
"""Opens units of work with the caller's permissions."""


class NewRecords(Value):
    """A dataset of records to create: objects with the same members.

    Values are texts; numbers, true and false become text. The members of the first record are the
    fields of the dataset, and the order of the records is kept.
    """

    name: Name
    kind: Literal["records"] = "records"
    sources: Origins = ()
    records: Annotated[tuple[dict[str, JsonValue], ...], Field(min_length=1)]


class RecordsFromUpload(Value):
    """A dataset of records to create from a complete upload.

    The first line of `csv` and `tsv` has the names of the fields. A line of `jsonl` is an object as
    in `records`.
    """

    name: Name
    kind: Literal["records"]
    sources: Origins = ()
    upload: UUID
    format: Form = "jsonl"


class RecordsFromFile(Value):
    """A dataset of records to create from a file below a dataset root.

    `file` is ALIAS/SUB/PATH. The records are copied: the dataset stays as it is if the file changes
    or goes. The form follows from the end of the file's name unless `format` is given.
    """

    name: Name
    kind: Literal["records"] = "records"
    sources: Origins = ()
    file: Annotated[str, Field(min_length=1, max_length=LONGEST_FILE)]
    format: FileForm | None = None


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """Limits on a file of records: its bytes, and seconds to read it.

    `advice` is what to do about a file that takes longer.
    """

    largest_bytes: int
    seconds: float
    advice: str = "Send fewer records, or ask an admin to raise ADAPTLAB_ANSWER_SECONDS."


def create(session: Session, principal: Principal, new: NewRecords) -> Uploaded:
    """Create a dataset from records in a request.

    Raises:
        InvalidSpec: the name is reserved, or something is not a record.
        Conflict: the name belongs to another dataset.
    """
    datasets.check_name(new.name)
    gatherer = Gatherer(INLINE)
    content = b"".join(gatherer.lines(checked_records(new.records, INLINE)))
    quotas.check_room(session, principal.user_id, len(content))
    stored = ArtifactStore(session).write([content])
    made = content_of(new.name, stored, gatherer)
    return datasets.keep(session, principal, new.name, new.sources, made)


def from_upload(
    units: Units,
    sessions: sessionmaker[Session],
    principal: Principal,
    new: RecordsFromUpload,
    limits: ReadingLimits,
) -> Uploaded:
    """Create a dataset from an upload, which stays until its owner deletes it.

    The upload is read and the canonical content written piece by piece, in units of work from
    `sessions`. The dataset is created in the last of the caller's `units`.

    Raises:
        NotFound: the caller has no such upload.
        Conflict: the upload is not complete, or the name belongs to another dataset.
        InvalidSpec: the upload is too large, or something in it is not a record.
    """
    datasets.check_name(new.name)
    with units() as session:
        access.to_create(session)
        upload = uploads.completed(session, principal, new.upload)
        quotas.check_room(session, principal.user_id, 0)
    check_size("upload", POINTER, upload.size, limits)
    pieces = in_time(streamed(sessions, upload.sha256), POINTER, upload.size, limits)
    records = read_records(pieces, new.format, POINTER)
    return store(units, sessions, principal, new, records)


def store(
    units: Units,
    sessions: sessionmaker[Session],
    principal: Principal,
    new: RecordsFromUpload | RecordsFromFile,
    records: Iterable[Record],
) -> Uploaded:
    """Create a dataset from records that are read while they are stored.

    Raises:
        Conflict: the name belongs to another dataset.
        InvalidSpec: there are no or too many records.
    """
    gatherer = Gatherer(FILE_POINTER if isinstance(new, RecordsFromFile) else POINTER)
    with staged(sessions, gatherer.lines(records)) as waiting:
        content = content_of(new.name, waiting.artifact, gatherer)
        with units() as session:
            quotas.check_room(session, principal.user_id, content.artifact.size)
            waiting.settle(session)
            return datasets.keep(session, principal, new.name, new.sources, content)


def content_of(name: str, artifact: StoredArtifact, gatherer: Gatherer) -> Content:
    """Return the content of a dataset of the records that were gathered."""
    facts = gatherer.facts(name, artifact.sha256)
    return Content("records", artifact, datasets.records_columns(facts))


def check_size(noun: str, pointer: str, size: int, limits: ReadingLimits) -> None:
    """Raise `InvalidSpec` if something has more bytes than a server reads."""
    if size > limits.largest_bytes:
        detail = (
            f"The {noun} has {size:,} bytes. This server reads records from {noun}s of at most "
            f"{limits.largest_bytes:,} bytes. Send fewer records, or leave out fields that no task "
            "needs."
        )
        raise InvalidSpec(
            Problem(pointer, "too_many_bytes", detail, nearest=(limits.largest_bytes,))
        )


def in_time(
    pieces: Iterable[bytes], pointer: str, size: int, limits: ReadingLimits
) -> Iterator[bytes]:
    """Pass the pieces on; raise `InvalidSpec` when the time is over."""
    end, read = time.monotonic() + limits.seconds, 0
    for piece in pieces:
        if time.monotonic() > end:
            detail = (
                f"The server read only {read:,} of {size:,} bytes in {limits.seconds:g} seconds, "
                f"its limit. {limits.advice}"
            )
            raise InvalidSpec(Problem(pointer, "takes_too_long", detail))
        yield piece
        read += len(piece)
