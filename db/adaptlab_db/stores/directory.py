"""Bytes in files of a directory that all servers and workers see."""

import os
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy.orm import Session

from adaptlab_db.errors import BytesMissing, StoreUnreachable
from adaptlab_db.stores.store import (
    KEY_PATTERN,
    KeptKey,
    Place,
    StoreName,
    new_key,
    new_name,
    owner_of,
)

READ_BYTES = 2**20
INCOMING = "incoming"
_KEY = re.compile(KEY_PATTERN)
_KEY_OR_INCOMING = re.compile(rf"{KEY_PATTERN}|{INCOMING}/[0-9a-f]{{32}}")


class DirectoryStore:
    """Files named by digest, which appear whole: written beside, made durable, then renamed."""

    name: StoreName = "directory"
    is_transactional = False

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, session: Session, sha256: str, chunks: Iterable[bytes]) -> Place:
        """See `Store`."""
        owner = owner_of(session)
        key = new_key(owner, sha256)
        incoming = self._root / INCOMING / new_name(owner)
        with _translated(str(self._root)):
            target = self._path(key)
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (incoming.parent, target.parent.parent, target.parent):
                folder.mkdir(mode=0o700, exist_ok=True)
            try:
                _write_durably(incoming, chunks)
                incoming.rename(target)
            finally:
                incoming.unlink(missing_ok=True)
            for folder in (target.parent, target.parent.parent, self._root):
                _make_durable(folder)
        return Place(self.name, sha256, key)

    def read(self, session: Session, place: Place, start: int, stop: int) -> bytes:
        """See `Store`; at most 1 MiB."""
        with _translated(str(self._root)):
            try:
                with self._path(place.key).open("rb") as file:
                    file.seek(start)
                    content = file.read(min(stop - start, READ_BYTES))
            except FileNotFoundError:
                content = b""
        if not content:
            raise BytesMissing(self.name, place.sha256)
        return content

    def delete(self, session: Session, place: Place) -> None:
        """See `Store`."""
        with _translated(str(self._root)):
            self._path(place.key, _KEY_OR_INCOMING).unlink(missing_ok=True)

    def kept(self) -> Iterator[KeptKey]:
        """See `Store`; halves of writings that were broken off too."""
        with _translated(str(self._root)):
            for path in self._root.rglob("*"):
                key = path.relative_to(self._root).as_posix()
                if _KEY_OR_INCOMING.fullmatch(key):
                    yield from _kept(path, key)

    def _path(self, key: str | None, pattern: re.Pattern[str] = _KEY) -> Path:
        if key is None or not pattern.fullmatch(key):
            raise ValueError(f"{key!r} is no key of a stored file.")
        return self._root / key


def _kept(path: Path, key: str) -> Iterator[KeptKey]:
    try:
        changed = path.stat().st_mtime
    except FileNotFoundError:
        return  # deleted since it was listed
    yield KeptKey(key, datetime.fromtimestamp(changed, UTC))


def _write_durably(path: Path, chunks: Iterable[bytes]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        for chunk in chunks:
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())


def _make_durable(folder: Path) -> None:
    """A name in a folder outlives a power cut only once the folder itself is written."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _translated(where: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnreachable("directory", where, str(error)) from error
