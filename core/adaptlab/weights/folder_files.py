"""The files of a model folder, wherever they are."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from adaptlab.weights.weights_file import opened

READ_AT_ONCE = 2**20


class FolderFiles(Protocol):
    """Named files that are read in any order, without folders below."""

    def names(self) -> Sequence[str]:
        """Return the names of all entries, sorted; raises `OSError`."""
        ...

    def path(self, name: str) -> Path:
        """Return the path of a file; only its name is real if it is in a store."""
        ...

    def opened(self, name: str) -> BinaryIO:
        """Open a file for reading and seeking; raises `OSError`."""
        ...

    def digest(self, name: str) -> str:
        """Return the SHA-256 of all bytes of a file; raises `OSError`."""
        ...


@dataclass(frozen=True, slots=True)
class PlainFolder:
    """A folder of this machine. Files outside `within` are not opened."""

    folder: Path
    within: Path | None = None

    def names(self) -> Sequence[str]:
        """Return the names of all entries, sorted; raises `OSError`."""
        return sorted(entry.name for entry in self.folder.iterdir())

    def path(self, name: str) -> Path:
        """Return the path of an entry."""
        return self.folder / name

    def opened(self, name: str) -> BinaryIO:
        """Open a regular file; see `adaptlab.weights.weights_file.opened`."""
        return opened(self.folder / name, self.within)

    def digest(self, name: str) -> str:
        """Return the SHA-256 of all bytes of a file; raises `OSError`."""
        digest = hashlib.sha256()
        with self.opened(name) as file:
            while piece := file.read(READ_AT_ONCE):
                digest.update(piece)
        return digest.hexdigest()
