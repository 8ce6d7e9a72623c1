"""Store in files of a directory that all servers and workers share."""

import os
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab_db.errors import BytesMissing, StoreUnreachable
from adaptlab_db.stores.store import (
    KEY_PATTERN,
    BytesPlace,
    KeptKey,
    StoreName,
    new_key,
    new_name,
    owner_of,
)
from adaptlab_db.tables import Artifact

READ_BYTES = 2**20
INCOMING = "incoming"
MARKER = "adaptlab-artifacts"
"""A file in the folder; without it, the folder may not be mounted."""
_KEY = re.compile(KEY_PATTERN)
_OF_EARLIER_VERSION = re.compile(rf"[0-9a-f]{{2}}|{INCOMING}")
_KEY_OR_INCOMING = re.compile(rf"{KEY_PATTERN}|{INCOMING}/[0-9a-f]{{32}}")


class DirectoryStore:
    """Files named by digest; each is written, synced, then renamed into place."""

    name: StoreName = "directory"
    is_transactional = False

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, session: Session, sha256: str, chunks: Iterable[bytes]) -> BytesPlace:
        """See `Store`."""
        owner = owner_of(session)
        key = new_key(owner, sha256)
        incoming = self._root / INCOMING / new_name(owner)
        with _translated(str(self._root)):
            target = self._path(key)
            if not self._is_there():
                self._make(session)
            for folder in (incoming.parent, target.parent.parent, target.parent):
                folder.mkdir(mode=0o700, exist_ok=True)
            try:
                write_durably(incoming, chunks)
                incoming.rename(target)
            finally:
                incoming.unlink(missing_ok=True)
            for folder in (target.parent, target.parent.parent, self._root):
                _make_durable(folder)
        return BytesPlace(self.name, sha256, key)

    def read(self, session: Session, place: BytesPlace, start: int, stop: int) -> bytes:
        """See `Store`; returns at most 1 MiB."""
        with _translated(str(self._root)):
            try:
                with self._path(place.key).open("rb") as file:
                    file.seek(start)
                    content = file.read(min(stop - start, READ_BYTES))
            except FileNotFoundError:
                if not self._is_there():
                    raise self._away() from None
                content = b""
        if not content:
            raise BytesMissing(self.name, place.sha256)
        return content

    def delete(self, session: Session, place: BytesPlace) -> None:
        """See `Store`."""
        with _translated(str(self._root)):
            self._path(place.key, _KEY_OR_INCOMING).unlink(missing_ok=True)

    def kept(self) -> Iterator[KeptKey]:
        """See `Store`; includes files of interrupted writes."""
        with _translated(str(self._root)):
            for path in self._root.rglob("*"):
                key = path.relative_to(self._root).as_posix()
                if _KEY_OR_INCOMING.fullmatch(key):
                    yield from _kept(path, key)

    def _is_there(self) -> bool:
        """Return True if the folder is ours, and not an unused mount point."""
        marker = self._root / MARKER
        if marker.exists():
            return True
        names = [path.name for path in self._root.iterdir()] if self._root.is_dir() else []
        if not any(_OF_EARLIER_VERSION.fullmatch(name) for name in names):
            return False
        marker.touch(0o600)  # earlier versions wrote no marker
        return True

    def _make(self, session: Session) -> None:
        """Create the folder, unless artifacts are already stored in it.

        In that case it is not mounted.
        """
        stored = select(Artifact.sha256).where(Artifact.store == self.name).limit(1)
        with Session(session.get_bind()) as separate:
            if separate.scalars(stored).one_or_none() is not None:
                raise self._away()
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._root / MARKER).touch(0o600)

    def _away(self) -> StoreUnreachable:
        detail = (
            f"there is no file {MARKER!r} in it; mount the folder, or set ADAPTLAB_ARTIFACT_FOLDER "
            "to where it is."
        )
        return StoreUnreachable(self.name, str(self._root), detail)

    def _path(self, key: str | None, pattern: re.Pattern[str] = _KEY) -> Path:
        if key is None or not pattern.fullmatch(key):
            raise ValueError(f"{key!r} is not the key of a stored file.")
        return self._root / key


def _kept(path: Path, key: str) -> Iterator[KeptKey]:
    try:
        modified = path.stat().st_mtime
    except FileNotFoundError:
        return  # deleted since it was listed
    yield KeptKey(key, datetime.fromtimestamp(modified, UTC))


def write_durably(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file durably (fsync), readable by its owner only."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        for chunk in chunks:
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())


def _make_durable(folder: Path) -> None:
    """Sync a folder, without which a new name in it could be lost."""
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
