"""Quotas of users, and the last counts of their usage."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Add the columns and the table; no user has a quota at first."""
    op.add_column("users", sa.Column("max_queue_hours", postgresql.JSONB(), nullable=True))
    op.add_column("users", sa.Column("max_stored_bytes", sa.BigInteger(), nullable=True))
    op.create_table(
        "usage_counts",
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("counted_at", MOMENT, nullable=False),
        sa.Column("counted_until", MOMENT, nullable=False),
        sa.Column("hours", postgresql.JSONB(), nullable=False),
        sa.Column("job_bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_usage_counts_user_id"),
        sa.PrimaryKeyConstraint("user_id", name="pk_usage_counts"),
    )
    # Also serves queries by owner alone.
    op.create_index("ix_jobs_owner_finished", "jobs", ["owner_id", "finished_at"])
    op.drop_index("ix_jobs_owner_id", "jobs")


def downgrade() -> None:
    """Drop the quotas."""
    op.create_index("ix_jobs_owner_id", "jobs", ["owner_id"])
    op.drop_index("ix_jobs_owner_finished", "jobs")
    op.drop_table("usage_counts")
    op.drop_column("users", "max_stored_bytes")
    op.drop_column("users", "max_queue_hours")
