"""The metric by which trials are chosen, beside the validation accuracy."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; trials of earlier replicates were chosen by accuracy."""
    op.add_column("replicates", sa.Column("validation_metric", sa.Double(), nullable=True))


def downgrade() -> None:
    """Drop the column; the accuracies stay."""
    op.drop_column("replicates", "validation_metric")
