"""Files of records that a page sends: kept as uploads, and inspected."""

import hashlib
import subprocess
import sys
from typing import BinaryIO
from uuid import UUID

from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.inspection.file_inspection import Inspection
from adaptlab.records.file_forms import FileForm
from adaptlab.records.file_reading import ReadingOptions
from adaptlab_db.artifacts import streamed
from adaptlab_services.models import inspection_process
from adaptlab_services.models.dataset_files import environment, refused, spooled
from adaptlab_services.models.record_datasets import POINTER, ReadingLimits, Units, check_size
from adaptlab_services.people import access
from adaptlab_services.people.tokens import Principal
from adaptlab_services.storage import uploads
from adaptlab_services.storage.upload_chunks import ROW_BYTES, AnnouncedChunk, receiving
from adaptlab_services.storage.uploads import CHUNK_BYTES, NewUpload, UploadLimits


def keep_file(
    units: Units,
    sessions: sessionmaker[Session],
    principal: Principal,
    file: BinaryIO,
    limits: UploadLimits,
) -> UUID:
    """Keep a whole file as a complete upload, and return its id.

    The same file again is the same upload.

    Raises:
        InvalidSpec: the file is empty.
        UploadTooLarge: it exceeds the size limit.
        TooManyUploads: the caller has as many uploads as allowed.
        QuotaReached: the caller would store too much.
    """
    size = file.seek(0, 2)
    if not size:
        raise InvalidSpec(Problem(POINTER, "no_records", "The file is empty. Choose another."))
    file.seek(0)
    digest = hashlib.sha256()
    while piece := file.read(ROW_BYTES):
        digest.update(piece)
    whole = digest.hexdigest()
    with units() as session:
        access.to_create(session)
        begun = uploads.begin(session, principal, NewUpload(size_bytes=size, sha256=whole), limits)
    upload = begun.upload
    if upload.state == "complete":
        return upload.id
    for number in range(uploads.chunk_count(size)):
        _send(sessions, principal, file, upload.id, number)
    with units() as session:
        uploads.complete(session, principal, upload.id)
    return upload.id


def _send(
    sessions: sessionmaker[Session], principal: Principal, file: BinaryIO, upload: UUID, number: int
) -> None:
    file.seek(number * CHUNK_BYTES)
    chunk = file.read(CHUNK_BYTES)
    announced = AnnouncedChunk(upload, number, hashlib.sha256(chunk).hexdigest())
    writing = receiving(sessions, principal, announced)
    rows = [chunk[place : place + ROW_BYTES] for place in range(0, len(chunk), ROW_BYTES)]
    writing.finish(rows)


def inspected_upload(
    units: Units,
    sessions: sessionmaker[Session],
    principal: Principal,
    upload_id: UUID,
    name: str,
    form: FileForm,
    options: ReadingOptions,
    limits: ReadingLimits,
) -> Inspection:
    """Return what is in an upload, read as a file of this name and form.

    Raises:
        Absent: the caller has no such upload.
        StateConflict: the upload is not complete.
        InvalidSpec: it is no file of records, is too large, or takes too long.
    """
    with units() as session:
        upload = uploads.completed(session, principal, upload_id)
    check_size("upload", POINTER, upload.size, limits)
    with spooled(streamed(sessions, upload.sha256)) as file:
        return inspected_file(file, name, form, options, limits)


def inspected_file(
    file: BinaryIO, name: str, form: FileForm, options: ReadingOptions, limits: ReadingLimits
) -> Inspection:
    """Return what is in an open file, read in a process of its own.

    Raises:
        InvalidSpec: it is no file of records, or takes too long.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", inspection_process.__name__, name, form,
             options.alone().model_dump_json()],
            stdin=file, capture_output=True, env=environment(), timeout=limits.seconds,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        detail = f"The file takes longer than {limits.seconds:g} seconds. {limits.advice}"
        raise InvalidSpec(Problem(POINTER, "takes_too_long", detail)) from error
    if done.returncode:
        raise refused(done.returncode, done.stderr, POINTER)
    return Inspection.model_validate_json(done.stdout)
