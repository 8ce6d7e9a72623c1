"""An index for the attempts of a worker, by which its projects are found."""

from alembic import op

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the index."""
    op.create_index(op.f("ix_attempts_worker_id"), "attempts", ["worker_id"])


def downgrade() -> None:
    """Drop the index."""
    op.drop_index(op.f("ix_attempts_worker_id"), "attempts")
