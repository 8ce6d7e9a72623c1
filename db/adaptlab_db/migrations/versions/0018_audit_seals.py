"""Seals of the audit log: a chain of digests to check its entries."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

TRIGGER = """
    CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_seals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_change_audit_entries()"""


def upgrade() -> None:
    """Create the table empty.

    The next server that starts seals the existing entries.
    """
    op.create_table(
        "audit_seals",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("first_id", sa.BigInteger(), nullable=False),
        sa.Column("last_id", sa.BigInteger(), nullable=False),
        sa.Column("entries", sa.Integer(), nullable=False),
        sa.Column("absent", postgresql.JSONB(), nullable=False),
        sa.Column("late", postgresql.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("previous", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("sealed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_seals"),
    )
    op.create_index("ix_audit_seals_sealed_at", "audit_seals", ["sealed_at"])
    op.execute(TRIGGER)


def downgrade() -> None:
    """Drop the seals."""
    op.drop_table("audit_seals")
