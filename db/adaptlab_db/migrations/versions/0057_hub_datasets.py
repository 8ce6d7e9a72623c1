"""Datasets that are fetched from a hub, and the accounts of tokens."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0057"
down_revision = "0056"
branch_labels = None
depends_on = None

COLUMNS = (("datasets", "origin"), ("hub_fetches", "dataset"), ("hub_tokens", "account"))


def upgrade() -> None:
    """Add the columns: null for other datasets, models and unchecked tokens."""
    for table, column in COLUMNS:
        op.add_column(table, sa.Column(column, JSONB, nullable=True))


def downgrade() -> None:
    """Drop the columns, and the fetches that only they describe."""
    op.execute(sa.text("DELETE FROM hub_fetches WHERE dataset IS NOT NULL"))
    for table, column in COLUMNS:
        op.drop_column(table, column)
