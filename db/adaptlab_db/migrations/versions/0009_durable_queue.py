"""Pauses and retries of jobs, furthest steps, and fingerprints of errors."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns for pauses, retries and poison jobs."""
    op.add_column("jobs", sa.Column("pause_requested_at", sa.DateTime(timezone=True)))
    op.add_column(
        "jobs", sa.Column("furthest_step", sa.Integer(), server_default="0", nullable=False)
    )
    op.add_column("jobs", sa.Column("error_fingerprint", sa.Text()))
    op.add_column("jobs", sa.Column("retry_of", sa.Uuid()))
    op.create_foreign_key("fk_jobs_retry_of", "jobs", "jobs", ["retry_of"], ["id"])
    # Of two requests to retry a job at once, one creates the retry and the other finds it.
    op.create_index("ix_jobs_retry_of", "jobs", ["retry_of"], unique=True)


def downgrade() -> None:
    """Drop the columns; jobs stay as they are."""
    op.drop_index("ix_jobs_retry_of", "jobs")
    op.drop_constraint("fk_jobs_retry_of", "jobs", type_="foreignkey")
    op.drop_column("jobs", "retry_of")
    op.drop_column("jobs", "error_fingerprint")
    op.drop_column("jobs", "furthest_step")
    op.drop_column("jobs", "pause_requested_at")
