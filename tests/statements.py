"""Statements of the product are compiled once in a process of tests.

SQLAlchemy keeps what it has compiled by the engine and its dialect. Each test has a database of its
own, and so an engine: compiling the same statements anew took a tenth of the suite.
"""

from sqlalchemy import Connection, Engine, event
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.util import LRUCache

MOST_KEPT = 4000


def compile_once() -> None:
    """Have all engines of this process share what they compile."""
    kept: LRUCache[object, object] = LRUCache(MOST_KEPT)
    same = ("_json_serializer", "_json_deserializer")

    def form(dialect: PGDialect_psycopg) -> tuple[object, ...]:
        return (type(dialect), *(getattr(dialect, name, None) for name in same))

    def equals(one: PGDialect_psycopg, other: object) -> bool:
        return isinstance(other, PGDialect_psycopg) and form(one) == form(other)

    def hashed(self: PGDialect_psycopg) -> int:
        return hash(form(self))

    def share(connection: Connection) -> None:
        connection.execution_options(compiled_cache=kept)

    PGDialect_psycopg.__eq__ = equals
    PGDialect_psycopg.__hash__ = hashed
    event.listen(Engine, "engine_connect", share)
