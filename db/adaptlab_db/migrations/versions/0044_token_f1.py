"""Mean token F1 of decoded answers, beside each score."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; earlier evaluations have no token F1."""
    op.add_column("evaluations", sa.Column("token_f1", sa.Double(), nullable=True))


def downgrade() -> None:
    """Drop the column; the scores stay."""
    op.drop_column("evaluations", "token_f1")
