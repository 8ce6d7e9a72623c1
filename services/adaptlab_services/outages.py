"""Telling a database that is away from one that answers with an error."""

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

# By the first two characters of what Postgres answers: a connection that failed, and a server that
# is short of memory, disk or connections, or cannot read its own files.
_CLASSES = ("08", "53", "58")
# Shutting down, crashed, starting up, dropped; and a copy that may only be read, after a failover.
_STATES = frozenset({"57P01", "57P02", "57P03", "57P04", "57P05", "25006"})


def is_outage(error: SQLAlchemyError) -> bool:
    """Whether nobody can write to the database just now, and not only the one who was refused.

    A lock that was not had in time, a deadlock or a statement that is wrong is an answer.
    """
    if isinstance(error, PoolTimeout):
        return True
    if not isinstance(error, DBAPIError):
        return False
    state = getattr(error.orig, "sqlstate", None)
    if state is None:  # nothing came from a server
        return True
    return error.connection_invalidated or state in _STATES or state.startswith(_CLASSES)
