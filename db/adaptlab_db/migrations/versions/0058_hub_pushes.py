"""Adapters that are pushed to a hub, among the fetches from it."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0058"
down_revision = "0057"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what is pushed."""
    op.add_column("hub_fetches", sa.Column("push", postgresql.JSONB))


def downgrade() -> None:
    """Drop it."""
    op.execute("DELETE FROM hub_fetches WHERE push IS NOT NULL")
    op.drop_column("hub_fetches", "push")
