"""Tables of comparisons by the digest of their inputs; orders of lists."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

NOW = sa.text("clock_timestamp()")
MOMENT = sa.DateTime(timezone=True)
ORDERS = (
    ("ix_jobs_finished", "jobs", ["finished_at", "id"]),
    (
        "ix_attention_summaries_moved",
        "attention_summaries",
        ["relative_deviation", "map_id", "layer", "head"],
    ),
    (
        "ix_attention_summaries_entropy",
        "attention_summaries",
        ["entropy", "map_id", "layer", "head"],
    ),
)
"""Orders of lists of results and heads, each read backwards from an index."""


def upgrade() -> None:
    """Add the indexes, and the table empty.

    Comparisons are computed when they are opened.
    """
    op.create_table(
        "comparison_results",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.Column("created_at", MOMENT, server_default=NOW, nullable=False),
        sa.Column("used_at", MOMENT, server_default=NOW, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_comparison_results"),
    )
    op.create_index("ix_comparison_results_used_at", "comparison_results", ["used_at"])
    for name, table, columns in ORDERS:
        op.create_index(name, table, columns)


def downgrade() -> None:
    """Drop them; all of it can be computed again."""
    for name, table, _ in ORDERS:
        op.drop_index(name, table)
    op.drop_table("comparison_results")
