"""Datasets of records from files below the dataset roots of a server.

The records are copied into the store when the dataset is created, so a dataset never changes and
workers need no root. What happens to the file afterwards has no effect.
"""

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import BinaryIO, cast

from pydantic import ValidationError
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.records.file_forms import BINARY, ENDS, FileForm, UnknownForm, form_of
from adaptlab.records.file_reading import Reading, ReadingOptions
from adaptlab.records.reading import PIECE_BYTES, read_records
from adaptlab.weights.hub_name import is_hub_name
from adaptlab.weights.weights_file import opened
from adaptlab_services.limits import quotas
from adaptlab_services.models import datasets, records_process
from adaptlab_services.models.datasets import Uploaded
from adaptlab_services.models.record_datasets import (
    FILE_POINTER,
    ReadingLimits,
    ReadRecords,
    RecordsFromFile,
    Units,
    check_size,
    in_time,
    read_text,
    store,
)
from adaptlab_services.models.roots import Roots
from adaptlab_services.people import access
from adaptlab_services.people.tokens import Principal

MODULE = records_process.__name__


class DatasetRoots(Roots):
    """The dataset roots by alias. Their paths are never revealed to users."""

    noun = "dataset root"
    setting = "ADAPTLAB_DATASET_ROOTS"
    entry = "file"
    upload = "adaptlab datasets upload"

    @contextmanager
    def opened(self, path: str, pointer: str) -> Generator[BinaryIO]:
        """Open the file `ALIAS/SUB/PATH`; problems have the `pointer`.

        Raises:
            InvalidSpec: there is no such file, or it leads outside its root.
        """
        if is_hub_name(path):
            detail = (
                f"{path!r} is on a hub. Have it fetched: POST /v1/hub-fetches with the kind "
                f"dataset, or adaptlab datasets add NAME '{path}'."
            )
            raise InvalidSpec(Problem(pointer, "not_a_file_name", detail))
        if not self.aliases:
            detail = (
                "This server has no dataset roots. Upload the file with `adaptlab datasets upload`,"
                f" or ask an operator to set {self.setting}=ALIAS=/PATH."
            )
            raise InvalidSpec(Problem(pointer, "no_dataset_roots", detail))
        located = self.located(path, pointer)
        if located.place.is_dir():
            detail = f"{path!r} is a folder. Name one file of records."
            raise InvalidSpec(Problem(pointer, "is_a_folder", detail))
        try:
            # Checked again once open: it may have been replaced.
            file = opened(located.place, located.root)
        except OSError as error:
            if error.errno != errno.EACCES:
                raise self.unreadable(path, pointer) from error
            detail = f"The server has no permission to read {path!r}. Ask an operator to grant it."
            raise InvalidSpec(Problem(pointer, "no_permission", detail)) from error
        with file:
            yield file


def from_file(
    units: Units,
    sessions: sessionmaker[Session],
    principal: Principal,
    new: RecordsFromFile,
    roots: DatasetRoots,
    limits: ReadingLimits,
) -> Uploaded:
    """Create a dataset from a file below a root, which is copied.

    It is read piece by piece, and the dataset is created in the last of the caller's `units`.

    Raises:
        StateConflict: the name belongs to another dataset.
        InvalidSpec: the file is not below a root, is too large or has changed while it was read, or
            something in it is not a record.
    """
    datasets.check_name(new.name)
    with units() as session:
        access.to_create(session)
        quotas.check_room(session, principal.user_id, 0)
    with (
        roots.opened(new.file, FILE_POINTER) as file,
        records_in(file, _form(new), new, limits, FILE_POINTER) as read,
    ):
        return store(units, sessions, principal, new, read)


@contextmanager
def records_in(
    file: BinaryIO, form: FileForm, options: ReadingOptions, limits: ReadingLimits, pointer: str
) -> Generator[ReadRecords]:
    """Yield the records of an open file, and how it is read.

    Problems have the `pointer`. What reads the file ends with the context, wherever the iterator
    stands.

    Raises:
        InvalidSpec: the file is too large or has changed while it was read, or something in it is
            not a record.
    """
    size = os.fstat(file.fileno()).st_size
    check_size("file", pointer, size, limits)
    before = _state(file)
    if form not in BINARY:

        def pieces() -> Iterator[bytes]:
            file.seek(0)
            return _unchanging(file, iter(lambda: file.read(PIECE_BYTES), b""), before, pointer)

        yield read_text(pieces, size, form, options, limits, pointer)
        return
    with _reader(file, form, options, pointer) as (reading, lines):
        checked = _limited(_unchanging(file, lines, before, pointer), limits, pointer)
        pieces_in_time = in_time(checked, pointer, size, limits)
        yield ReadRecords(reading, read_records(pieces_in_time, "jsonl", pointer))


@contextmanager
def spooled(pieces: Iterable[bytes]) -> Generator[BinaryIO]:
    """Yield a temporary file with the bytes, for what reads no stream."""
    with tempfile.TemporaryFile(prefix="adaptlab-") as file:
        file.writelines(pieces)
        file.flush()
        yield cast("BinaryIO", file)


def _form(new: RecordsFromFile) -> FileForm:
    try:
        return form_of(PurePath(new.file), new.format)
    except UnknownForm as error:
        usual = f"The form of the file is not known by its name. Give `format`, or end it {ENDS}."
        detail = error.other or usual
        raise InvalidSpec(Problem("/format", "unknown_form", detail)) from error


def _unchanging(
    file: BinaryIO, pieces: Iterator[bytes], before: tuple[int, int], pointer: str
) -> Iterator[bytes]:
    """Yield the pieces of a file; raise `InvalidSpec` if it has changed."""
    yield from pieces
    if _state(file) != before:
        detail = "The file has changed while it was read. Try again when it is complete."
        raise InvalidSpec(Problem(pointer, "file_has_changed", detail))


def _limited(pieces: Iterator[bytes], limits: ReadingLimits, pointer: str) -> Iterator[bytes]:
    """Yield unpacked pieces; raise `InvalidSpec` for too many bytes."""
    count = 0
    for piece in pieces:
        count += len(piece)
        check_size("file", pointer, count, limits)
        yield piece


def _state(file: BinaryIO) -> tuple[int, int]:
    state = os.fstat(file.fileno())
    return state.st_size, state.st_mtime_ns


@contextmanager
def _reader(
    file: BinaryIO, form: FileForm, options: ReadingOptions, pointer: str
) -> Generator[tuple[Reading, Iterator[bytes]]]:
    """Yield the reading and the lines of a process that reads a file.

    The process ends with the context, not with the iterator, which nobody may have read to its end.
    """
    given = options.alone().model_dump_json()
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE, form, given, pointer],
        stdin=file,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        if not first:
            raise _ended(process, pointer)
        yield Reading.model_validate_json(first), _lines(process, pointer)
    finally:
        process.kill()
        process.communicate()


def _lines(process: "subprocess.Popen[bytes]", pointer: str) -> Iterator[bytes]:
    """Yield what a process writes; raise `InvalidSpec` for what it refuses."""
    assert process.stdout is not None
    while piece := process.stdout.read(PIECE_BYTES):
        yield piece
    if process.wait() != 0:
        raise _ended(process, pointer)


def _ended(process: "subprocess.Popen[bytes]", pointer: str) -> InvalidSpec:
    assert process.stderr is not None
    found = process.stderr.read()
    return refused(process.wait(), found, pointer)


def refused(status: int, found: bytes, pointer: str) -> InvalidSpec:
    """Return the problems that the process has found, or that it ended."""
    if status == records_process.REFUSED:
        try:
            return InvalidSpec(*records_process.PROBLEMS.validate_json(found))
        except ValidationError:  # the process has failed, with a traceback
            pass
    detail = (
        f"The file could not be read with {records_process.MEMORY_BYTES // 2**30} GiB of memory. "
        "Write it with smaller row groups, or as JSON lines."
    )
    return InvalidSpec(Problem(pointer, "not_readable", detail))


def environment() -> dict[str, str]:
    """Return the environment without our settings, such as database passwords."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ADAPTLAB_")}
