"""The mean loss on test items, beside each score."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; earlier evaluations have no loss."""
    op.add_column("evaluations", sa.Column("loss", sa.Double(), nullable=True))


def downgrade() -> None:
    """Drop the column; the scores stay."""
    op.drop_column("evaluations", "loss")
