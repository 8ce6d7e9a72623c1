"""Datasets of records, from a request or from an upload."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, JsonValue
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.records.checking import checked_records
from adaptlab.records.file_forms import LONGEST_FILE, FileForm
from adaptlab.records.file_reading import Reading, ReadingOptions
from adaptlab.records.gathering import Gatherer
from adaptlab.records.reading import Source, found_reading, read_records
from adaptlab.records.record import Record
from adaptlab.text.cleaning import whole_reading
from adaptlab.values import Name, Value
from adaptlab_db.artifacts import ArtifactStore, StoredArtifact
from adaptlab_services.limits import quotas
from adaptlab_services.models import datasets
from adaptlab_services.models.datasets import Content, Origins, Uploaded
from adaptlab_services.people.tokens import Principal
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


class RecordsFromUpload(ReadingOptions):
    """A dataset of records to create from a complete upload.

    The first line of `csv` and `tsv` has the names of the fields. A line of `jsonl` is an object as
    in `records`. `reading` says how the client has read the file that it sends as JSON lines.
    """

    name: Name
    kind: Literal["records"]
    sources: Origins = ()
    upload: UUID
    format: FileForm = "jsonl"
    reading: Reading | None = None


class RecordsFromFile(ReadingOptions):
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


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """The records of a file, and how it is read."""

    reading: Reading
    records: Iterator[Record]


def create(session: Session, principal: Principal, new: NewRecords) -> Uploaded:
    """Create a dataset from records in a request.

    Raises:
        InvalidSpec: the name is reserved, or something is not a record.
        StateConflict: the name belongs to another dataset.
    """
    datasets.check_name(new.name)
    gatherer = Gatherer(INLINE)
    content = b"".join(gatherer.lines(checked_records(new.records, INLINE)))
    quotas.check_room(session, principal.user_id, len(content))
    stored = ArtifactStore(session).write([content])
    made = content_of(new.name, stored, gatherer)
    return datasets.keep(session, principal, new.name, new.sources, made)


def read_text(
    source: Source,
    size: int,
    form: FileForm,
    options: ReadingOptions,
    limits: ReadingLimits,
    pointer: str,
) -> ReadRecords:
    """Return the records of a text, and how it is read.

    Raises:
        InvalidSpec: it is not sure how it is read, or that takes too long.
    """
    end = time.monotonic() + limits.seconds

    def pieces() -> Iterator[bytes]:
        left = replace(limits, seconds=max(end - time.monotonic(), 0))
        return in_time(source(), pointer, size, left)

    plain = found_reading(pieces, form, options, pointer)
    reading = whole_reading(plain, options, lambda: read_records(pieces(), plain, pointer))
    return ReadRecords(reading, read_records(pieces(), reading, pointer))


def store(
    units: Units,
    sessions: sessionmaker[Session],
    principal: Principal,
    new: RecordsFromUpload | RecordsFromFile,
    read: ReadRecords,
) -> Uploaded:
    """Create a dataset from records that are read while they are stored.

    Raises:
        StateConflict: the name belongs to another dataset.
        InvalidSpec: there are no or too many records.
    """
    told = new.reading if isinstance(new, RecordsFromUpload) else None
    reading = told or read.reading
    gatherer = Gatherer(FILE_POINTER if isinstance(new, RecordsFromFile) else POINTER)
    with staged(sessions, gatherer.lines(read.records)) as waiting:
        content = content_of(new.name, waiting.artifact, gatherer, reading)
        with units() as session:
            quotas.check_room(session, principal.user_id, content.artifact.size)
            waiting.settle(session)
            return datasets.keep(session, principal, new.name, new.sources, content)


def content_of(
    name: str, artifact: StoredArtifact, gatherer: Gatherer, reading: Reading | None = None
) -> Content:
    """Return the content of a dataset of the records that were gathered."""
    facts = gatherer.facts(name, artifact.sha256)
    written = {"reading": reading and reading.model_dump(mode="json")}
    return Content("records", artifact, {**datasets.records_columns(facts), **written})


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
