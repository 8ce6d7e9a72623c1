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
from adaptlab.records.gathering import Gatherer
from adaptlab.records.reading import Form, read_records
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
READERS = 1
"""Uploads read at a time per process; several threads would take longer for each."""
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


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """Limits on an upload of records: its bytes, and seconds to read it."""

    largest_bytes: int
    seconds: float


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
    made = _content(new.name, stored, gatherer)
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
    _check_size(upload, limits)
    gatherer = Gatherer(POINTER)
    pieces = _in_time(streamed(sessions, upload.sha256), upload.size, limits.seconds)
    lines = gatherer.lines(read_records(pieces, new.format, POINTER))
    with staged(sessions, lines) as waiting:
        content = _content(new.name, waiting.artifact, gatherer)
        with units() as session:
            quotas.check_room(session, principal.user_id, content.artifact.size)
            waiting.settle(session)
            return datasets.keep(session, principal, new.name, new.sources, content)


def _content(name: str, artifact: StoredArtifact, gatherer: Gatherer) -> Content:
    facts = gatherer.facts(name, artifact.sha256)
    return Content("records", artifact, datasets.records_columns(facts))


def _check_size(upload: StoredArtifact, limits: ReadingLimits) -> None:
    if upload.size > limits.largest_bytes:
        detail = (
            f"The upload has {upload.size:,} bytes. This server reads records from uploads of at "
            f"most {limits.largest_bytes:,} bytes. Send fewer records, or leave out fields that no "
            "task needs."
        )
        raise InvalidSpec(
            Problem(POINTER, "too_many_bytes", detail, nearest=(limits.largest_bytes,))
        )


def _in_time(pieces: Iterable[bytes], size: int, seconds: float) -> Iterator[bytes]:
    """Pass the pieces on; raise `InvalidSpec` when the time is over."""
    end, read = time.monotonic() + seconds, 0
    for piece in pieces:
        if time.monotonic() > end:
            detail = (
                f"The server read only {read:,} of {size:,} bytes in {seconds:g} seconds, its "
                "limit. Send fewer records, or ask an admin to raise ADAPTLAB_ANSWER_SECONDS."
            )
            raise InvalidSpec(Problem(POINTER, "takes_too_long", detail))
        yield piece
        read += len(piece)
