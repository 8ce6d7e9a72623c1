"""Reading bundles that anybody may have made: known names only, bounded sizes, nothing unpacked."""

import hashlib
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from adaptlab.bundle.contents import FIXED, MANIFEST
from adaptlab.errors import BrokenBundle

MOST_MEMBERS = 256
LARGEST_MEMBER = 128 * 2**20
LARGEST_BUNDLE = 512 * 2**20
"""Of all members together, unpacked, and of the file."""
_PLOT = re.compile(r"plots/[0-9]{1,4}-(curves|[0-9]{1,4}-(ranks|differences|sweeps))\.svg")
LARGEST_DIRECTORY = MOST_MEMBERS * 2**10
_END = b"PK\5\6"
_ZIP64 = b"PK\6\7"
_TAIL = 22 + 2**16
_PIECE = 2**16
_ENCRYPTED = 0x1
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError)


class BundleReader:
    """Members of a bundle by name; raises `BrokenBundle` for whatever no bundle has.

    Nothing is written anywhere, and no name that stands in the file is ever used as a path.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise BrokenBundle(str(path), "there is no such file.")
        if (size := path.stat().st_size) > LARGEST_BUNDLE:
            raise BrokenBundle(
                str(path), f"{size:,} bytes; a bundle has at most {LARGEST_BUNDLE:,}."
            )
        _check_directory(path)
        try:
            self._zip = zipfile.ZipFile(path)
        except (*_BROKEN, ValueError) as error:
            raise BrokenBundle(str(path), f"this is not a zip file: {error}.") from error
        try:
            self._entries = _checked_entries(self._zip)
        except BrokenBundle:
            self._zip.close()
            raise

    @property
    def names(self) -> frozenset[str]:
        """The names of the members that there are."""
        return frozenset(self._entries)

    def read(self, name: str) -> bytes:
        """The content of a member."""
        return b"".join(self._pieces(name))

    def digest(self, name: str) -> tuple[str, int]:
        """The SHA-256 and the size of a member's content."""
        found, size = hashlib.sha256(), 0
        for piece in self._pieces(name):
            found.update(piece)
            size += len(piece)
        return found.hexdigest(), size

    def close(self) -> None:
        """Close the file."""
        self._zip.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _pieces(self, name: str) -> Iterator[bytes]:
        if name not in self._entries:
            raise BrokenBundle(name, "this member is missing.")
        try:
            with self._zip.open(self._entries[name]) as member:
                while piece := member.read(_PIECE):
                    yield piece
        except _BROKEN as error:
            raise BrokenBundle(name, f"this member cannot be read: {error}.") from error


def _check_directory(path: Path) -> None:
    """Raise for a list of members so long that reading it would take the memory.

    `zipfile` takes one of the end records in the tail of the file, so each of them is looked at.
    """
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        tail = file.read(_TAIL)
    if _ZIP64 in tail:
        raise BrokenBundle(
            str(path), "it uses the zip format for files of more than 4 GB, which bundles do not."
        )
    for found in re.finditer(re.escape(_END), tail):
        record = tail[found.start() + 10 : found.start() + 16]
        members, size = struct.unpack("<HI", record.ljust(6, b"\0"))
        if members > MOST_MEMBERS or size > LARGEST_DIRECTORY:
            detail = f"{members} members; a bundle has at most {MOST_MEMBERS}."
            raise BrokenBundle(str(path), detail)


def _checked_entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    entries = archive.infolist()
    if len(entries) > MOST_MEMBERS:
        raise BrokenBundle(
            MANIFEST, f"{len(entries)} members; a bundle has at most {MOST_MEMBERS}."
        )
    for name, count in Counter(entry.filename for entry in entries).items():
        if count > 1:
            raise BrokenBundle(repr(name), f"this name occurs {count} times.")
    for entry in entries:
        _check(entry)
    if (total := sum(entry.file_size for entry in entries)) > LARGEST_BUNDLE:
        largest = max(entries, key=lambda entry: entry.file_size)
        raise BrokenBundle(
            largest.filename, f"the members unpack to {total:,} bytes; at most {LARGEST_BUNDLE:,}."
        )
    return {entry.filename: entry for entry in entries}


def _check(entry: zipfile.ZipInfo) -> None:
    """Raise for a member that no bundle has; `zipfile` reads no more than the size it announces."""
    name = entry.orig_filename
    if name != entry.filename or not (name in (*FIXED, MANIFEST) or _PLOT.fullmatch(name)):
        raise BrokenBundle(repr(name), "bundles have no member with this name.")
    if entry.file_size > LARGEST_MEMBER:
        raise BrokenBundle(
            name,
            f"it unpacks to {entry.file_size:,} bytes; a member has at most {LARGEST_MEMBER:,}.",
        )
    if entry.flag_bits & _ENCRYPTED:
        raise BrokenBundle(name, "it is encrypted; bundles are not.")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise BrokenBundle(name, "it is compressed in a way that bundles do not use.")
