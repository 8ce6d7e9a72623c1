"""The model roots that a worker can read."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; it is null for workers that registered before."""
    op.add_column("workers", sa.Column("model_roots", postgresql.ARRAY(sa.Text()), nullable=True))


def downgrade() -> None:
    """Drop the column; workers report it again when they start."""
    op.drop_column("workers", "model_roots")
