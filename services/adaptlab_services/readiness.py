"""Whether the server can do its work."""

from sqlalchemy import literal, select
from sqlalchemy.orm import Session


def check(session: Session) -> None:
    """Ask the database for an answer; what it raises says that it is not there."""
    session.execute(select(literal(1))).one()
