"""Writer of bundles, with the same bytes for the same members."""

import hashlib
import zipfile
from collections.abc import Iterable
from types import TracebackType
from typing import IO, Self

from adaptlab.bundle.contents import MANIFEST, Manifest, Member

THE_BEGINNING = (1980, 1, 1, 0, 0, 0)
"""The time of every member: the earliest that a zip file can represent."""
_REGULAR_FILE = 0o100644 << 16
_UNIX = 3


class BundleWriter:
    """Writer of members into a zip file, with their digests for the manifest."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6)
        self._members: list[Member] = []

    @property
    def members(self) -> tuple[Member, ...]:
        """The written members, sorted by name."""
        return tuple(sorted(self._members, key=lambda member: member.name))

    def add(self, name: str, pieces: Iterable[bytes]) -> None:
        """Write a member from pieces of its content."""
        digest, size = hashlib.sha256(), 0
        with self._zip.open(_entry(name), "w") as member:
            for piece in pieces:
                digest.update(piece)
                size += len(piece)
                member.write(piece)
        self._members.append(Member(name=name, size=size, sha256=digest.hexdigest()))

    def add_manifest(self, manifest: Manifest) -> None:
        """Write the manifest, the last member, which does not list itself."""
        with self._zip.open(_entry(MANIFEST), "w") as member:
            member.write(manifest.model_dump_json(indent=1).encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._zip.close()


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, THE_BEGINNING)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = _REGULAR_FILE
    entry.create_system = _UNIX
    return entry
