"""The tokens that searches have found."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; earlier methods chose no tokens."""
    op.add_column("replicates", sa.Column("prompt", postgresql.JSONB(), nullable=True))


def downgrade() -> None:
    """Drop the column; checkpoints keep the embeddings of the tokens."""
    op.drop_column("replicates", "prompt")
