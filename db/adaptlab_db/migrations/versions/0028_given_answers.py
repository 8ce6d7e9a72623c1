"""Texts of test items, and of the answers that models gave."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both tables; earlier jobs have no rows in them."""
    op.create_table(
        "shown_items",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("task_place", sa.Integer(), nullable=False),
        sa.Column("task", postgresql.JSONB(), nullable=False),
        sa.Column("items", postgresql.JSONB(), nullable=False),
        _of_attempt("shown_items"),
        sa.PrimaryKeyConstraint("job_id", "attempt", "task_place", name="pk_shown_items"),
    )
    op.create_table(
        "given_answers",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("task_place", sa.Integer(), nullable=False),
        sa.Column("replicate", sa.Integer(), nullable=False),
        sa.Column("attached", sa.Boolean(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("answers", postgresql.JSONB(), nullable=False),
        _of_attempt("given_answers"),
        sa.PrimaryKeyConstraint(
            "job_id", "attempt", "task_place", "replicate", "attached", name="pk_given_answers"
        ),
    )


def downgrade() -> None:
    """Drop both tables; the scores stay."""
    op.drop_table("given_answers")
    op.drop_table("shown_items")


def _of_attempt(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["job_id", "attempt"],
        ["attempts.job_id", "attempts.attempt"],
        name=f"fk_{table}_job_id_attempt",
        ondelete="CASCADE",
    )
