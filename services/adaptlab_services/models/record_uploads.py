"""Datasets of records from uploads."""

from collections.abc import Iterator

from sqlalchemy.orm import Session, sessionmaker

from adaptlab.records.file_forms import BINARY
from adaptlab_db.artifacts import streamed
from adaptlab_services.limits import quotas
from adaptlab_services.models import datasets
from adaptlab_services.models.dataset_files import records_in, spooled
from adaptlab_services.models.datasets import Uploaded
from adaptlab_services.models.record_datasets import (
    POINTER,
    ReadingLimits,
    RecordsFromUpload,
    Units,
    check_size,
    read_text,
    store,
)
from adaptlab_services.people import access
from adaptlab_services.people.tokens import Principal
from adaptlab_services.storage import uploads


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
        Absent: the caller has no such upload.
        StateConflict: the upload is not complete, or the name belongs to another dataset.
        InvalidSpec: the upload is too large, or something in it is not a record.
    """
    datasets.check_name(new.name)
    with units() as session:
        access.to_create(session)
        upload = uploads.completed(session, principal, new.upload)
        quotas.check_room(session, principal.user_id, 0)
    check_size("upload", POINTER, upload.size, limits)

    def source() -> Iterator[bytes]:
        return streamed(sessions, upload.sha256)

    if new.format not in BINARY:
        read = read_text(source, upload.size, new.format, new, limits, POINTER)
        return store(units, sessions, principal, new, read)
    with (
        spooled(source()) as file,
        records_in(file, new.format, new, limits, POINTER) as read,
    ):
        return store(units, sessions, principal, new, read)
