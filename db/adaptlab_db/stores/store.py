"""What every store of bytes can do, and which of them a process knows."""

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Literal, Protocol

from sqlalchemy import text
from sqlalchemy.orm import Session

from adaptlab_db.errors import StoreNotConfigured

StoreName = Literal["postgres", "directory", "s3"]
POSTGRES: StoreName = "postgres"

KEY_PATTERN = r"[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{64}-[0-9a-f]{24}"
"""What keys look like; nothing that a user wrote is part of one."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one artifact's bytes lie; Postgres finds them by the digest and needs no key."""

    store: str
    sha256: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class KeptKey:
    """Bytes that lie in a store outside the database, whether or not an artifact has them."""

    key: str
    modified_at: datetime


class Store(Protocol):
    """A store of bytes; whoever calls it keeps the table of artifacts in step with it.

    Every method may raise `StoreUnreachable`.

    Attributes:
        name: as it stands in the table of artifacts.
        is_transactional: whether what it does is undone with the caller's unit of work. Where it
            is not, a key is used for one writing only: bytes that a unit of work disowned may
            then be deleted at any later time, since nobody else can have come to rely on them.
    """

    name: StoreName
    is_transactional: bool

    def put(self, session: Session, sha256: str, chunks: Iterable[bytes]) -> Place:
        """Keep the concatenation of `chunks`, durably when this returns; whole or not at all."""
        ...

    def read(self, session: Session, place: Place, start: int, stop: int) -> bytes:
        """At least one byte from `start` on, and none from `stop` on; raises `BytesMissing`."""
        ...

    def delete(self, session: Session, place: Place) -> None:
        """Let go of the bytes; no error where there are none."""
        ...

    def kept(self) -> Iterator[KeptKey]:
        """Everything that lies there outside the database, in any order."""
        ...


def new_key(owner: str, sha256: str) -> str:
    """A key that was never used, in two levels of folders."""
    return f"{sha256[:2]}/{sha256[2:4]}/{sha256}-{owner}{secrets.token_hex(8)}"


def new_name(owner: str) -> str:
    """A name that was never used, for bytes whose writing has not ended."""
    return owner + secrets.token_hex(12)


def owner_of(session: Session) -> str:
    """Eight digits that tell a database from all others, also from a copy that was restored.

    Looked up apart, so that the caller's unit of work does not begin with it.
    """
    which = (
        "SELECT system_identifier::text || ' ' || oid FROM pg_control_system(), pg_database "
        "WHERE datname = current_database()"
    )
    with Session(session.get_bind()) as apart:
        return hashlib.sha256(apart.scalars(text(which)).one().encode()).hexdigest()[:8]


def owner_in(key: str) -> str:
    """Which database wrote under a key, or under a name of a writing that has not ended."""
    name = key.rpartition("/")[2]
    return (name.partition("-")[2] or name)[:8]


NO_STORES: Mapping[str, Store] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores that a process knows, and which one new artifacts go to.

    Attributes:
        known: by name; Postgres is always there.
        large: where artifacts of at least `large_from` bytes go.
    """

    known: Mapping[str, Store] = field(default_factory=lambda: NO_STORES)
    large: StoreName = POSTGRES
    large_from: int = 0

    def named(self, name: str) -> Store:
        """The store of this name; raises `StoreNotConfigured`."""
        found = self.known.get(name)
        if found is None:
            raise StoreNotConfigured(name)
        return found

    def for_size(self, size: int) -> Store:
        """Where a new artifact of `size` bytes goes."""
        return self.named(self.large if size >= self.large_from else POSTGRES)
