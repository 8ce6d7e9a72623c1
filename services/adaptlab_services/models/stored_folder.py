"""Model folders whose files are artifacts."""

import errno
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from sqlalchemy.orm import Session

from adaptlab.specs.spec import StoredModelFile
from adaptlab_db.artifacts import ArtifactStore

AT_ONCE = 2**13
"""Bytes read ahead; samples of tensors have half as many."""


class StoredFolder:
    """The files of an uploaded model folder, read in parts.

    They are valid within the unit of work.
    """

    def __init__(self, session: Session, stored: Iterable[StoredModelFile]) -> None:
        self._session = session
        self._digests = {file.name: file.sha256 for file in stored}

    def names(self) -> Sequence[str]:
        """Return the names of the files, sorted."""
        return sorted(self._digests)

    def path(self, name: str) -> Path:
        """Return the name as a path."""
        return Path(name)

    def opened(self, name: str) -> BinaryIO:
        """Open a file.

        Raises `OSError` if there is none, and what `ArtifactStore.locate` raises.
        """
        return cast(
            "BinaryIO", io.BufferedReader(_Reader(self._session, self.digest(name)), AT_ONCE)
        )

    def digest(self, name: str) -> str:
        """Return the SHA-256 of a file; raises `OSError` if there is none."""
        if name not in self._digests:
            raise OSError(errno.ENOENT, "it is missing")
        return self._digests[name]


class _Reader(io.RawIOBase):
    """An artifact as a file."""

    def __init__(self, session: Session, sha256: str) -> None:
        self._artifacts = ArtifactStore(session)
        self._located = self._artifacts.locate(sha256)
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a place and return it."""
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._located.size}[whence]
        self._at = max(0, begin + offset)
        return self._at

    def tell(self) -> int:
        """Return the place of the next byte."""
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride] - the library passes a memoryview
        """Read the next bytes into the buffer, and return their number."""
        stop = min(self._at + len(buffer), self._located.size)
        if stop <= self._at:
            return 0
        self._located, content = self._artifacts.piece(self._located, self._at, stop)
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)
