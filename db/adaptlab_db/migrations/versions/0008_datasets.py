"""Uploaded datasets."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "datasets",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("owner_id", sa.BigInteger(), nullable=False),
        sa.Column("artifact_sha256", sa.Text(), nullable=False),
        sa.Column("triples", sa.Integer(), nullable=False),
        sa.Column("characters", sa.Text(), nullable=False),
        sa.Column("lengths", postgresql.ARRAY(sa.Integer()), nullable=False),
        sa.Column("sources", postgresql.JSONB(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["artifact_sha256"], ["artifacts.sha256"], name="fk_datasets_artifact_sha256"
        ),
        sa.ForeignKeyConstraint(["owner_id"], ["users.id"], name="fk_datasets_owner_id"),
        sa.PrimaryKeyConstraint("name", name="pk_datasets"),
    )
    op.create_index("ix_datasets_artifact_sha256", "datasets", ["artifact_sha256"])
    op.create_index("ix_datasets_owner_id", "datasets", ["owner_id"])


def downgrade() -> None:
    """Drop it; jobs on its datasets stay, but cannot be run again."""
    op.drop_table("datasets")
