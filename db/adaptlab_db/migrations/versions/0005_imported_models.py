"""Jobs without a task: imports of published models."""

from alembic import op

from adaptlab_db.migrations.unguarded import unguarded_jobs

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Allow jobs without a task."""
    op.alter_column("jobs", "task", nullable=True)


def downgrade() -> None:
    """Require a task again.

    Imports, which the earlier version cannot run, get an empty name.
    """
    with unguarded_jobs():
        op.execute("UPDATE jobs SET task = '' WHERE task IS NULL")
    op.alter_column("jobs", "task", nullable=False)
