"""The files of a repository as a folder, read when they are opened."""

import errno
import hashlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from adaptlab.errors import BadModelFolder
from adaptlab.weights.huggingface import LONGEST_FILE_NAME, SAFETENSORS
from adaptlab.weights.model_folder import LARGEST_TOKENISER
from adaptlab.weights.weights_file import LARGEST_HEADER, LENGTH_BYTES
from adaptlab_services.hub.hub_access import HubFile, HubRepository
from adaptlab_services.hub.hub_child import HubFailure

FIRST_BYTES = 2**17
"""Bytes of a file of weights that are read first; most headers are shorter."""
Read = Callable[[HubFile, int, int], Iterator[bytes]]
"""Yields the bytes of a file from a place up to another."""


class HubFolder:
    """The root of a repository.

    Small files are read as a whole and compared with their digests; of a file of weights, only the
    header is read. Nothing is read twice.
    """

    def __init__(self, repository: HubRepository, read: Read) -> None:
        self._files = {
            file.name: file
            for file in repository.files
            if file.name.isprintable() and len(file.name) <= LONGEST_FILE_NAME
        }
        self._read = read
        self._contents: dict[str, bytes] = {}

    @property
    def contents(self) -> Mapping[str, bytes]:
        """What was read of each file that was opened."""
        return self._contents

    def file(self, name: str) -> HubFile:
        """Return a file by name; raises `OSError`."""
        if name not in self._files:
            raise OSError(errno.ENOENT, "it is missing")
        return self._files[name]

    def size(self, name: str) -> int:
        """Return the announced size of a file.

        Raises `BadModelFolder` if there is none.
        """
        size = self.file(name).size
        if size is None or size < 0:
            raise BadModelFolder(f"The hub does not announce the size of {name}.")
        return size

    def names(self) -> Sequence[str]:
        """Return the names of the files, sorted."""
        return sorted(self._files)

    def path(self, name: str) -> Path:
        """Return the name as a path."""
        return Path(name)

    def opened(self, name: str) -> BinaryIO:
        """Open a file, of weights as far as its header; raises `OSError`."""
        size = self.size(name)
        if name not in self._contents:
            content = self._header(name, size) if name.endswith(SAFETENSORS) else self._whole(name)
            self._contents[name] = content
        return io.BufferedReader(_Beginning(self._contents[name], size))

    def digest(self, name: str) -> str:
        """Return the SHA-256 of a small file; raises `OSError`."""
        self.opened(name)
        return hashlib.sha256(self._contents[name]).hexdigest()

    def _header(self, name: str, size: int) -> bytes:
        first = self._bytes(name, 0, min(size, FIRST_BYTES))
        length = LENGTH_BYTES + int.from_bytes(first[:LENGTH_BYTES], "little")
        if len(first) < length <= min(size, LENGTH_BYTES + LARGEST_HEADER):
            first += self._bytes(name, len(first), length)
        return first[:length] if length <= size else first

    def _whole(self, name: str) -> bytes:
        file, size = self.file(name), self.size(name)
        if size > LARGEST_TOKENISER:
            raise BadModelFolder(f"{name} has more than {LARGEST_TOKENISER:,} bytes, the limit.")
        content = self._bytes(name, 0, size) if size else b""
        blob = hashlib.sha1(f"blob {len(content)}\0".encode() + content, usedforsecurity=False)
        is_right = (
            hashlib.sha256(content).hexdigest() == file.sha256
            if file.sha256 is not None
            else file.blob in (None, blob.hexdigest())
        )
        if not is_right:
            raise HubFailure("wrong_digest", name)
        return content

    def _bytes(self, name: str, start: int, stop: int) -> bytes:
        return b"".join(self._read(self.file(name), start, stop))


class _Beginning(io.RawIOBase):
    """A file of which only the first bytes are here."""

    def __init__(self, content: bytes, size: int) -> None:
        self._content = content
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a place and return it."""
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, begin + offset)
        return self._at

    def tell(self) -> int:
        """Return the place of the next byte."""
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride] - the library passes a memoryview
        """Read the next bytes into the buffer, and return their number."""
        content = self._content[self._at : self._at + len(buffer)]
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)
