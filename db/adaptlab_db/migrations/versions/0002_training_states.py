"""Saved training states, to resume jobs after their worker is gone."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "training_states",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("artifact_sha256", sa.Text(), nullable=False),
        sa.Column(
            "saved_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["job_id", "attempt"],
            ["attempts.job_id", "attempts.attempt"],
            name="fk_training_states_job_id_attempt",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["artifact_sha256"], ["artifacts.sha256"], name="fk_training_states_artifact_sha256"
        ),
        sa.PrimaryKeyConstraint("job_id", name="pk_training_states"),
    )


def downgrade() -> None:
    """Drop it; jobs that run then start from their first step."""
    op.drop_table("training_states")
