"""Content that was sent under a lease.

It counts as stored, and reports name nothing else.
"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "lease_artifacts",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column(
            "sent_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_lease_artifacts_job_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["sha256"],
            ["artifacts.sha256"],
            name=op.f("fk_lease_artifacts_sha256"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_id", "sha256", name=op.f("pk_lease_artifacts")),
    )
    op.create_index("ix_lease_artifacts_sha256", "lease_artifacts", ["sha256"])


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("lease_artifacts")
