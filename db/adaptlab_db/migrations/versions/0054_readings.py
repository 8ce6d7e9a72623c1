"""Datasets keep how their file was read."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0054"
down_revision = "0053"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the reading, null for datasets of earlier versions."""
    op.add_column("datasets", sa.Column("reading", JSONB, nullable=True))


def downgrade() -> None:
    """Drop the reading."""
    op.drop_column("datasets", "reading")
