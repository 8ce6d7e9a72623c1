"""Tells database outages from errors that the database returns."""

import logging
from collections.abc import Generator
from contextlib import contextmanager

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


@contextmanager
def errors_logged(log: logging.Logger, text: str, *values: object) -> Generator[None]:
    """Log errors of the block, which is tried again later, except outages.

    `text` and `values` are those of `logging`.
    """
    try:
        yield
    except SQLAlchemyError as error:
        if not is_outage(error):
            log.exception(text, *values)
    except Exception:
        log.exception(text, *values)
