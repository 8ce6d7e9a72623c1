"""Reader of untrusted bundles, with limits on names and sizes."""

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
"""Bytes of the file, and of all unpacked members together."""
_PLOT = re.compile(
    r"plots/[0-9]{1,4}-(curves|[0-9]{1,4}-(ranks|differences|sweeps|retention))\.svg"
)
LARGEST_DIRECTORY = MOST_MEMBERS * 2**10
_END = b"PK\5\6"
_ZIP64 = b"PK\6\7"
_TAIL = 22 + 2**16
_PIECE = 2**16
_ENCRYPTED = 0x1
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError)


class BundleReader:
    """Reader of a bundle's members by name.

    It raises `BrokenBundle` for everything that bundles do not have. It writes nothing, and never
    uses a name from the file as a path.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise BrokenBundle(str(path), "there is no such file.")
        if (size := path.stat().st_size) > LARGEST_BUNDLE:
            raise BrokenBundle(
                str(path), f"the file has {size:,} bytes. The limit is {LARGEST_BUNDLE:,}."
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
        """The names of all members."""
        return frozenset(self._entries)

    def read(self, name: str) -> bytes:
        """Return the content of a member."""
        return b"".join(self._pieces(name))

    def digest(self, name: str) -> tuple[str, int]:
        """Return the SHA-256 and the size of a member's content."""
        sha256, size = hashlib.sha256(), 0
        for piece in self._pieces(name):
            sha256.update(piece)
            size += len(piece)
        return sha256.hexdigest(), size

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
    """Raise `BrokenBundle` for a list of members that is too long to read.

    `zipfile` uses one of the end records in the tail of the file, so all of them are checked.
    """
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        tail = file.read(_TAIL)
    if _ZIP64 in tail:
        raise BrokenBundle(
            str(path), "it uses the zip format for files of more than 4 GB, unlike bundles."
        )
    for match in re.finditer(re.escape(_END), tail):
        record = tail[match.start() + 10 : match.start() + 16]
        members, size = struct.unpack("<HI", record.ljust(6, b"\0"))
        if members > MOST_MEMBERS or size > LARGEST_DIRECTORY:
            detail = f"the file has {members} members. The limit is {MOST_MEMBERS}."
            raise BrokenBundle(str(path), detail)


def _checked_entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    entries = archive.infolist()
    if len(entries) > MOST_MEMBERS:
        raise BrokenBundle(
            MANIFEST, f"the file has {len(entries)} members. The limit is {MOST_MEMBERS}."
        )
    for name, count in Counter(entry.filename for entry in entries).items():
        if count > 1:
            raise BrokenBundle(repr(name), f"this name occurs {count} times.")
    for entry in entries:
        _check(entry)
    if (total := sum(entry.file_size for entry in entries)) > LARGEST_BUNDLE:
        largest = max(entries, key=lambda entry: entry.file_size)
        raise BrokenBundle(
            largest.filename,
            f"all members unpack to {total:,} bytes. The limit is {LARGEST_BUNDLE:,}.",
        )
    return {entry.filename: entry for entry in entries}


def _check(entry: zipfile.ZipInfo) -> None:
    """Raise `BrokenBundle` for a member that bundles do not have.

    The announced size can be trusted, because `zipfile` reads no more than that.
    """
    name = entry.orig_filename
    if name != entry.filename or not (name in (*FIXED, MANIFEST) or _PLOT.fullmatch(name)):
        raise BrokenBundle(repr(name), "bundles have no member with this name.")
    if entry.file_size > LARGEST_MEMBER:
        raise BrokenBundle(
            name,
            f"it unpacks to {entry.file_size:,} bytes. The limit is {LARGEST_MEMBER:,}.",
        )
    if entry.flag_bits & _ENCRYPTED:
        raise BrokenBundle(name, "it is encrypted, unlike members of bundles.")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise BrokenBundle(name, "it is compressed by a method that bundles do not use.")
