"""Tokens for a single job."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("tokens", sa.Column("job_id", sa.Uuid()))
    op.create_foreign_key(
        "fk_tokens_job_id", "tokens", "jobs", ["job_id"], ["id"], ondelete="CASCADE"
    )


def downgrade() -> None:
    """Drop the column, and revoke the tokens of jobs.

    They would give access to all jobs of their project.
    """
    op.execute(
        "UPDATE tokens SET revoked_at = clock_timestamp() "
        "WHERE job_id IS NOT NULL AND revoked_at IS NULL"
    )
    op.drop_constraint("fk_tokens_job_id", "tokens")
    op.drop_column("tokens", "job_id")
