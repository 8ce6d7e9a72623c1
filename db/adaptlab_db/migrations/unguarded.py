"""Changes to ended jobs in migrations.

The trigger `guard_states` otherwise rejects them.
"""

from collections.abc import Generator
from contextlib import contextmanager

from alembic import op


@contextmanager
def unguarded_jobs() -> Generator[None]:
    """Disable the trigger while a revision changes the stored form of jobs.

    All revisions are one transaction, so no other process sees the table without its trigger, and
    a failed revision leaves the trigger enabled.
    """
    op.execute("ALTER TABLE jobs DISABLE TRIGGER guard_states")
    yield
    op.execute("ALTER TABLE jobs ENABLE TRIGGER guard_states")
