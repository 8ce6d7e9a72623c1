"""Links with which people without an account read one study."""

import sqlalchemy as sa
from alembic import op

revision = "0055"
down_revision = "0054"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table of links."""
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "study_links",
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column(
            "study_id",
            sa.Uuid,
            sa.ForeignKey("studies.id", ondelete="CASCADE"),
            nullable=False,
            index=True,
        ),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),
        sa.Column("creator_id", sa.BigInteger, sa.ForeignKey("users.id"), nullable=False),
        sa.Column("created_at", moment, nullable=False, server_default=sa.func.clock_timestamp()),
        sa.Column("expires_at", moment),
        sa.Column("revoked_at", moment),
    )


def downgrade() -> None:
    """Drop the table of links."""
    op.drop_table("study_links")
