"""Counts of given labels by right label, beside each score."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; earlier evaluations have no counts."""
    op.add_column("evaluations", sa.Column("confusion", postgresql.JSONB(), nullable=True))


def downgrade() -> None:
    """Drop the column; the scores stay."""
    op.drop_column("evaluations", "confusion")
