"""Engines and sessions with limits.

The limits keep a stuck process from holding locks.
"""

import select
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from psycopg import Cursor
from psycopg.pq import Format
from pydantic_core import from_json, to_json
from sqlalchemy import Engine, event, text
from sqlalchemy import create_engine as _create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.engine.interfaces import ExecutionContext
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.stores.store import Stores

# A process that is paused inside a transaction holds its row locks, and the reaper skips locked
# rows: without the first limit, a frozen worker would keep its lease. No statement of a server or
# worker takes longer than the second.
LIMITS = {
    "idle_in_transaction_session_timeout": "5s",
    "statement_timeout": "30s",
    "lock_timeout": "2s",
    # Parallel workers read far beyond the LIMIT of a list, and take the cores of other requests:
    # 300 ms instead of 60 ms with 100,000 jobs.
    "max_parallel_workers_per_gather": "0",
    # Compiling takes 0.1 s and more, longer than any of our statements. With old statistics, the
    # planner would overestimate a plan's cost and compile it.
    "jit": "off",
    # A list joins nine tables. With the default of 8, a page would be chosen last, after all jobs
    # were joined: 217 ms instead of 13 with 100,000 jobs.
    "join_collapse_limit": "11",
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
    """Return the URL for SQLAlchemy with psycopg 3.

    The given URL starts with `postgres://` or `postgresql://`.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() not in {"postgresql", "postgres"}:
        raise ValueError(
            f"The database URL starts with {parsed.drivername!r}; Postgres is the only dialect: "
            "give postgresql://user:password@host:port/database."
        )
    return parsed.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


def create_engine(url: str, *, limited: bool = True, pool_size: int = 10) -> Engine:
    """Create an engine for a long-lived process.

    `limited=False` is for migrations.
    """
    settings: dict[str, Any] = dict(KEEPALIVE)  # psycopg's mixture of numbers and strings
    if limited:
        settings["options"] = " ".join(f"-c {name}={value}" for name, value in LIMITS.items())
    engine = _create_engine(
        normalised_url(url),
        pool_pre_ping=True,
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_timeout=10,
        # Half the time of `json`, which made lists slow.
        json_deserializer=from_json,
        json_serializer=_json,
        connect_args=settings,
        # No column has that type; each new connection would look it up in the catalogue.
        use_native_hstore=False,
    )
    event.listen(engine, "before_cursor_execute", _ask_for_bytes)
    ping = engine.dialect.do_ping
    # Every unit of work begins with a ping.
    engine.dialect.do_ping = lambda dbapi_connection: (
        _is_quiet(dbapi_connection) or ping(dbapi_connection)
    )
    return engine


def _is_quiet(connection: Any) -> bool:  # psycopg's, as the pool knows it
    """Return True if an unused connection has nothing to read.

    Such a connection is still open. A closed connection has its end to be read, and a server that
    shuts down sends a message. This takes microseconds, a query a millisecond of processor time.
    Keep-alives find a connection that was cut without a message.
    """
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


def _json(value: object) -> str:
    return to_json(value).decode()


def session_factory(database: str | Engine, stores: Stores | None = None) -> sessionmaker[Session]:
    """Create a factory of sessions on a database.

    `database` is its URL or an engine. `stores` are those of artifacts; Postgres alone if None. Use
    `with factory.begin() as session:` for one unit of work. Objects that it loads stay readable
    after the commit.
    """
    engine = create_engine(database) if isinstance(database, str) else database
    info = {} if stores is None else {"stores": stores}
    return sessionmaker(engine, expire_on_commit=False, info=info)


def one_by_one(factory: sessionmaker[Session], info: Mapping[str, object] | None = None) -> Session:
    """Open a session in which each statement is its own unit of work.

    The caller closes it.

    For single statements and for reads: it sends no BEGIN and no COMMIT, which would be two thirds
    of the messages.
    """
    session = factory(info=dict(info or {}))
    session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
    return session


_PAUSES = text("""
    WITH earlier AS MATERIALIZED (
        SELECT current_setting('idle_in_transaction_session_timeout') AS pause
    )
    SELECT earlier.pause, set_config('idle_in_transaction_session_timeout', :longest, true)
    FROM earlier
""")


def allow_pauses(session: Session, longest: str) -> str:
    """Let the unit of work pause for longer between two statements.

    `longest` is a duration of Postgres, such as `15s`. Returns the earlier limit.
    """
    return session.execute(_PAUSES, {"longest": longest}).scalars().one()


@contextmanager
def long_pause(session: Session, longest: str) -> Generator[None]:
    """Let the unit of work pause for as long as `longest` within the block.

    After an error the unit of work is expected to end.
    """
    earlier = allow_pauses(session, longest)
    yield
    allow_pauses(session, earlier)


def informed(factory: sessionmaker[Session], name: str, fact: object) -> sessionmaker[Session]:
    """Add a fact to the `info` of every session of a factory.

    Returns the factory.
    """
    facts: dict[str, object] = factory.kw.get("info") or {}
    factory.configure(info={**facts, name: fact})
    return factory


def _ask_for_bytes(
    _connection: object,
    cursor: Cursor,
    _statement: object,
    _parameters: object,
    context: ExecutionContext | None,
    _many: object,
) -> None:
    """Request `bytea` in binary if a statement has that option.

    As text it is twice as long.
    """
    if context is not None and context.execution_options.get("adaptlab_binary"):
        cursor.format = Format.BINARY


def close(factory: sessionmaker[Session]) -> None:
    """Close the pooled connections behind `factory`."""
    engine: Engine = factory.kw["bind"]
    engine.dispose()
