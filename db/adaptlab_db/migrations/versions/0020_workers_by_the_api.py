"""Tokens of workers that use the API, and an index of leases by claim id."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column and the index."""
    op.add_column("workers", sa.Column("token_id", sa.BigInteger()))
    op.create_foreign_key("fk_workers_token_id", "workers", "tokens", ["token_id"], ["id"])
    op.create_index("ix_attempts_claim_id", "attempts", ["claim_id"])


def downgrade() -> None:
    """Drop both; workers that use the API then have to register again."""
    op.drop_index("ix_attempts_claim_id", "attempts")
    op.drop_constraint("fk_workers_token_id", "workers")
    op.drop_column("workers", "token_id")
