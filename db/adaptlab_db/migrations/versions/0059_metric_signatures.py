"""Signatures of metrics, stored with their values."""

import sqlalchemy as sa
from alembic import op

revision = "0059"
down_revision = "0058"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what a metric's value was computed by."""
    op.add_column("measures", sa.Column("signature", sa.Text))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("measures", "signature")
