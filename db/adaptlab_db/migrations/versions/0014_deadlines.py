"""Ids of claims, and the reasons for which workers take no jobs."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns.

    Running jobs were claimed without an id, and continue without one.
    """
    op.add_column("jobs", sa.Column("claim_id", sa.Uuid()))
    op.add_column("attempts", sa.Column("claim_id", sa.Uuid()))
    op.add_column("workers", sa.Column("unschedulable", sa.Text()))


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("workers", "unschedulable")
    op.drop_column("attempts", "claim_id")
    op.drop_column("jobs", "claim_id")
