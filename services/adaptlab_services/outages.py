"""Tells database outages from errors that the database returns."""

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

# Classes of SQLSTATE (first two characters): connection failures, insufficient resources (memory,
# disk, connections) and system errors such as unreadable files.
_CLASSES = ("08", "53", "58")
# Shutdown, crash, start-up, dropped database, idle timeout; and a read-only standby after failover.
_STATES = frozenset({"57P01", "57P02", "57P03", "57P04", "57P05", "25006"})


def is_outage(error: SQLAlchemyError) -> bool:
    """Return True if the database is unavailable to all clients.

    Lock timeouts, deadlocks and invalid statements are answers, not outages.
    """
    if isinstance(error, PoolTimeout):
        return True
    if not isinstance(error, DBAPIError):
        return False
    state = getattr(error.orig, "sqlstate", None)
    if state is None:  # no server answered
        return True
    return error.connection_invalidated or state in _STATES or state.startswith(_CLASSES)
