"""Alembic's environment.

The connection comes from `adaptlab_db.migrate`, which holds the lock.
"""

from alembic import context
from sqlalchemy import Connection

from adaptlab_db.tables import Table


def run(connection: Connection) -> None:
    """Run the requested revisions inside the caller's transaction."""
    context.configure(
        connection=connection, target_metadata=Table.metadata, compare_server_default=True
    )
    context.run_migrations()


run(context.config.attributes["connection"])
