"""Engines and sessions with limits that keep a stuck process from holding locks."""

import select
from collections.abc import Mapping
from typing import Any

from psycopg import Cursor
from psycopg.pq import Format
from pydantic_core import from_json, to_json
from sqlalchemy import Engine, event
from sqlalchemy import create_engine as _create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.engine.interfaces import ExecutionContext
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.stores.store import Stores

# A process that is paused inside a transaction holds its row locks, and the reaper skips locked
# rows: without the first limit a frozen worker keeps its own lease from being taken away.
# Nothing a server or worker does in one statement takes longer than the second.
LIMITS = {
    "idle_in_transaction_session_timeout": "5s",
    "statement_timeout": "30s",
    "lock_timeout": "2s",
    # Somebody waits for the first rows of a list. Workers of a parallel scan read far ahead of its
    # LIMIT, and take the other requests' cores: 300 ms for 60 ms with 100,000 jobs.
    "max_parallel_workers_per_gather": "0",
    # Compiling a statement takes longer than any of ours: a plan that looks dear to the planner,
    # because its statistics are old, would be compiled for a tenth of a second and more.
    "jit": "off",
}
# A database that vanished without closing its connections is noticed after 20 seconds.
KEEPALIVE = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


def normalised_url(url: str) -> str:
    """The address for SQLAlchemy with psycopg 3; `postgres://` and `postgresql://` are accepted."""
    parsed = make_url(url)
    if parsed.get_backend_name() not in {"postgresql", "postgres"}:
        raise ValueError(
            f"The database URL starts with {parsed.drivername!r}; Postgres is the only dialect: "
            "give postgresql://user:password@host:port/database."
        )
    return parsed.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


def create_engine(url: str, *, limited: bool = True, pool_size: int = 10) -> Engine:
    """An engine for a long-lived process; `limited=False` lifts the time limits, for migrations."""
    settings: dict[str, Any] = dict(KEEPALIVE)  # psycopg's own mixture of numbers and strings
    if limited:
        settings["options"] = " ".join(f"-c {name}={value}" for name, value in LIMITS.items())
    engine = _create_engine(
        normalised_url(url),
        pool_pre_ping=True,
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_timeout=10,
        # These take half the time of `json`, by which lists are slow.
        json_deserializer=from_json,
        json_serializer=_json,
        connect_args=settings,
    )
    event.listen(engine, "before_cursor_execute", _ask_for_bytes)
    asking = engine.dialect.do_ping
    # Every unit of work begins with this.
    engine.dialect.do_ping = lambda dbapi_connection: (
        _is_quiet(dbapi_connection) or asking(dbapi_connection)
    )
    return engine


def _is_quiet(connection: Any) -> bool:  # psycopg's, as the pool knows it
    """Whether nothing has come for a connection that nobody used: it is as it was left.

    One that was closed has its end to be read, and a server that says goodbye is heard. That takes
    a few microseconds where a question to the database takes a millisecond of processor time; one
    that vanished without a word is found by its keep-alives.
    """
    if connection.closed:
        return False
    looked = select.poll()
    looked.register(connection.fileno(), select.POLLIN)
    return not looked.poll(0)


def _json(value: object) -> str:
    return to_json(value).decode()


def session_factory(database: str | Engine, stores: Stores | None = None) -> sessionmaker[Session]:
    """Sessions on a database, given by its URL or by an engine that is already there.

    `stores` are those in which artifacts may lie; Postgres alone if None.

    Use `with factory.begin() as session:` for one unit of work. What it loads stays readable
    after the commit.
    """
    engine = create_engine(database) if isinstance(database, str) else database
    info = {} if stores is None else {"stores": stores}
    return sessionmaker(engine, expire_on_commit=False, info=info)


def one_by_one(factory: sessionmaker[Session], info: Mapping[str, object] | None = None) -> Session:
    """A session in which each statement is a unit of work of its own; it is to be closed.

    For what is one statement anyway, and for looks: no beginning and no end are sent, which would
    be two thirds of the messages.
    """
    session = factory(info=dict(info or {}))
    session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
    return session


def informed(factory: sessionmaker[Session], name: str, fact: object) -> sessionmaker[Session]:
    """The same sessions, each of which now has a fact in its `info`, and all the same one."""
    known: dict[str, object] = factory.kw.get("info") or {}
    factory.configure(info={**known, name: fact})
    return factory


def _ask_for_bytes(
    _connection: object,
    cursor: Cursor,
    _statement: object,
    _parameters: object,
    context: ExecutionContext | None,
    _many: object,
) -> None:
    """Have `bytea` come as it is where a statement wishes so: as text it is twice as long."""
    if context is not None and context.execution_options.get("adaptlab_binary"):
        cursor.format = Format.BINARY


def close(factory: sessionmaker[Session]) -> None:
    """Close the pooled connections behind `factory`."""
    engine: Engine = factory.kw["bind"]
    engine.dispose()
