"""The interface of stores, and the set of stores that a process uses."""

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
"""The form of keys; no part of a key comes from a user."""


@dataclass(frozen=True, slots=True)
class BytesPlace:
    """The place of an artifact's bytes; Postgres needs no key but the digest."""

    store: str
    sha256: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class KeptKey:
    """A file or object in a store, whether or not an artifact refers to it."""

    key: str
    modified_at: datetime


class Store(Protocol):
    """A store of bytes; its caller keeps the table of artifacts consistent.

    Every method may raise `StoreUnreachable`.

    Attributes:
        name: as in the table of artifacts.
        is_transactional: True if changes are rolled back with the caller's unit of work. Otherwise
            every write uses a new key, so that bytes of a rolled-back unit of work can be deleted
            at any later time, because nothing else can refer to them.
    """

    name: StoreName
    is_transactional: bool

    def put(self, session: Session, sha256: str, chunks: Iterable[bytes]) -> BytesPlace:
        """Store the concatenation of `chunks` durably, in full or not at all."""
        ...

    def read(self, session: Session, place: BytesPlace, start: int, stop: int) -> bytes:
        """Return at least one byte from `start` on, and none from `stop` on.

        Raises:
            BytesMissing: there are no bytes at `start`.
        """
        ...

    def delete(self, session: Session, place: BytesPlace) -> None:
        """Delete the bytes; no error if there are none."""
        ...

    def kept(self) -> Iterator[KeptKey]:
        """Yield everything that is stored outside the database, in any order."""
        ...


def new_key(owner: str, sha256: str) -> str:
    """Return an unused key, in two levels of folders."""
    return f"{sha256[:2]}/{sha256[2:4]}/{sha256}-{owner}{secrets.token_hex(8)}"


def new_name(owner: str) -> str:
    """Return an unused name for bytes that are being written."""
    return owner + secrets.token_hex(12)


def owner_of(session: Session) -> str:
    """Return eight digits that identify a database, restored copies included.

    The query uses a separate session, so that it does not begin the caller's unit of work.
    """
    query = (
        "SELECT system_identifier::text || ' ' || oid FROM pg_control_system(), pg_database "
        "WHERE datname = current_database()"
    )
    with Session(session.get_bind()) as separate:
        return hashlib.sha256(separate.scalars(text(query)).one().encode()).hexdigest()[:8]


def owner_in(key: str) -> str:
    """Return the database that wrote under a key or a temporary name."""
    name = key.rpartition("/")[2]
    return (name.partition("-")[2] or name)[:8]


NO_STORES: Mapping[str, Store] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores that a process can use.

    Attributes:
        known: by name; always includes Postgres.
        large: store for new artifacts of at least `large_from` bytes.
    """

    known: Mapping[str, Store] = field(default_factory=lambda: NO_STORES)
    large: StoreName = POSTGRES
    large_from: int = 0

    def named(self, name: str) -> Store:
        """Return the store of this name; raises `StoreNotConfigured`."""
        store = self.known.get(name)
        if store is None:
            raise StoreNotConfigured(name)
        return store

    def for_size(self, size: int) -> Store:
        """Return the store for a new artifact of `size` bytes."""
        return self.named(self.large if size >= self.large_from else POSTGRES)
