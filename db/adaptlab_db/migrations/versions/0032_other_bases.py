"""Evaluations of found prompts on other base models."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

KEY = ["job_id", "attempt", "replicate", "split", "attached", "task"]
BEFORE = "uq_evaluations_job_id_attempt_replicate_split_attached_task"
AFTER = "uq_evaluations_measured"


def upgrade() -> None:
    """Add the other base model, empty for the job's own, to rows and key."""
    op.add_column(
        "evaluations", sa.Column("base_model", sa.Text(), nullable=False, server_default="")
    )
    op.create_unique_constraint(AFTER, "evaluations", [*KEY, "base_model"])
    op.drop_constraint(BEFORE, "evaluations")


def downgrade() -> None:
    """Delete the evaluations on other base models, and drop the column."""
    op.execute("DELETE FROM evaluations WHERE base_model <> ''")
    op.create_unique_constraint(BEFORE, "evaluations", KEY)
    op.drop_constraint(AFTER, "evaluations")
    op.drop_column("evaluations", "base_model")
