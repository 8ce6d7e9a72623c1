"""Datasets of records from files below the dataset roots of a server.

The records are copied into the store when the dataset is created, so a dataset never changes and
workers need no root. What happens to the file afterwards has no effect.
"""

import errno
import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import BinaryIO

from pydantic import ValidationError
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.records.file_forms import ENDS, FileForm, UnknownForm, form_of
from adaptlab.records.reading import read_records
from adaptlab.records.record import Record
from adaptlab.weights.weights_file import opened
from adaptlab_services.limits import quotas
from adaptlab_services.models import datasets, parquet_process
from adaptlab_services.models.datasets import Uploaded
from adaptlab_services.models.record_datasets import (
    FILE_POINTER,
    ReadingLimits,
    RecordsFromFile,
    Units,
    check_size,
    in_time,
    store,
)
from adaptlab_services.models.roots import Roots
from adaptlab_services.people import access
from adaptlab_services.people.tokens import Principal

PIECE_BYTES = 2**20
MODULE = parquet_process.__name__


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
        Conflict: the name belongs to another dataset.
        InvalidSpec: the file is not below a root, is too large or has changed while it was read, or
            something in it is not a record.
    """
    datasets.check_name(new.name)
    with units() as session:
        access.to_create(session)
        quotas.check_room(session, principal.user_id, 0)
    with (
        roots.opened(new.file, FILE_POINTER) as file,
        records_in(file, _form(new), limits, FILE_POINTER) as records,
    ):
        return store(units, sessions, principal, new, records)


@contextmanager
def records_in(
    file: BinaryIO, form: FileForm, limits: ReadingLimits, pointer: str
) -> Generator[Iterator[Record]]:
    """Yield an iterator of the records of an open file.

    Problems have the `pointer`. What reads the file ends with the context, wherever the iterator
    stands.

    Raises:
        InvalidSpec: the file is too large or has changed while it was read, or something in it is
            not a record.
    """
    size = os.fstat(file.fileno()).st_size
    check_size("file", pointer, size, limits)
    with _pieces(file, form, pointer) as read:
        pieces = in_time(_unchanging(file, read, limits, pointer), pointer, size, limits)
        yield read_records(pieces, "jsonl" if form == "parquet" else form, pointer)


def _form(new: RecordsFromFile) -> FileForm:
    try:
        return form_of(PurePath(new.file), new.format)
    except UnknownForm as error:
        detail = f"The form of the file is not known by its name. Give `format`, or end it {ENDS}."
        raise InvalidSpec(Problem("/format", "unknown_form", detail)) from error


@contextmanager
def _pieces(file: BinaryIO, form: FileForm, pointer: str) -> Generator[Iterator[bytes]]:
    """Yield an iterator of the pieces of a file, of Parquet as lines."""
    if form == "parquet":
        with _reader(file, pointer) as lines:
            yield lines
    else:
        yield iter(lambda: file.read(PIECE_BYTES), b"")


def _unchanging(
    file: BinaryIO, pieces: Iterator[bytes], limits: ReadingLimits, pointer: str
) -> Iterator[bytes]:
    """Yield the pieces of a file while it does not change.

    Raises:
        InvalidSpec: there are too many bytes, or the file has changed.
    """
    before, count = _state(file), 0
    for piece in pieces:
        count += len(piece)
        check_size("file", pointer, count, limits)  # it can grow, and Parquet is compressed
        yield piece
    if _state(file) != before:
        detail = "The file has changed while it was read. Try again when it is complete."
        raise InvalidSpec(Problem(pointer, "file_has_changed", detail))


def _state(file: BinaryIO) -> tuple[int, int]:
    state = os.fstat(file.fileno())
    return state.st_size, state.st_mtime_ns


@contextmanager
def _reader(file: BinaryIO, pointer: str) -> Generator[Iterator[bytes]]:
    """Yield the lines of a process that reads a Parquet file.

    The process ends with the context, not with the iterator, which nobody may have read to its end.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE, pointer],
        stdin=file,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(),
    )
    try:
        yield _lines(process, pointer)
    finally:
        process.kill()
        process.communicate()


def _lines(process: "subprocess.Popen[bytes]", pointer: str) -> Iterator[bytes]:
    """Yield what a process writes; raise `InvalidSpec` for what it refuses."""
    assert process.stdout is not None
    assert process.stderr is not None
    while piece := process.stdout.read(PIECE_BYTES):
        yield piece
    found = process.stderr.read()
    if (status := process.wait()) != 0:
        raise _refused(status, found, pointer)


def _refused(status: int, found: bytes, pointer: str) -> InvalidSpec:
    """Return the problems that the process has found, or that it ended."""
    if status == parquet_process.REFUSED:
        try:
            return InvalidSpec(*parquet_process.PROBLEMS.validate_json(found))
        except ValidationError:  # the process has failed, with a traceback
            pass
    detail = (
        f"The file could not be read with {parquet_process.MEMORY_BYTES // 2**30} GiB of memory. "
        "Write it with smaller row groups, or as JSON lines."
    )
    return InvalidSpec(Problem(pointer, "not_readable", detail))


def _environment() -> dict[str, str]:
    """Return the environment without our settings, such as database passwords."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ADAPTLAB_")}
