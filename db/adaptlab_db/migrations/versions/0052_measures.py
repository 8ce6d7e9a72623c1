"""Metrics of evaluations as rows, with their statistics by item."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0052"
down_revision = "0051"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Move token F1 to rows; earlier results have no statistics by item."""
    op.create_table(
        "measures",
        sa.Column("evaluation_id", sa.BigInteger(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("statistics", sa.LargeBinary(), nullable=True),
        sa.Column("floor", postgresql.JSONB(), nullable=True),
        sa.PrimaryKeyConstraint("evaluation_id", "metric", name="pk_measures"),
        sa.ForeignKeyConstraint(
            ["evaluation_id"],
            ["evaluations.id"],
            ondelete="CASCADE",
            name="fk_measures_evaluation_id",
        ),
    )
    op.execute(
        "INSERT INTO measures (evaluation_id, metric, value) "
        "SELECT id, 'token_f1', token_f1 FROM evaluations WHERE token_f1 IS NOT NULL"
    )
    op.drop_column("evaluations", "token_f1")


def downgrade() -> None:
    """Keep token F1 beside each score again; the rest is lost."""
    op.add_column("evaluations", sa.Column("token_f1", sa.Double(), nullable=True))
    op.execute(
        "UPDATE evaluations SET token_f1 = measures.value FROM measures "
        "WHERE measures.evaluation_id = evaluations.id AND measures.metric = 'token_f1'"
    )
    op.drop_table("measures")
