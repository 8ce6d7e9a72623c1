"""Uploaded PEFT adapters, and what the page of uploaded folders shows."""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None

KIND = "ck_uploaded_folders_kind_has_family"


def upgrade() -> None:
    """Add the columns; folders of earlier versions are models."""
    op.add_column(
        "uploaded_folders", sa.Column("kind", sa.Text(), nullable=False, server_default="model")
    )
    op.add_column("uploaded_folders", sa.Column("architecture", sa.Text(), nullable=True))
    op.add_column("uploaded_folders", sa.Column("dtype", sa.Text(), nullable=True))
    op.alter_column("uploaded_folders", "family", nullable=True)
    op.create_check_constraint(
        op.f(KIND), "uploaded_folders", "(kind = 'model') = (family IS NOT NULL)"
    )


def downgrade() -> None:
    """Drop the columns, and uploaded adapters with them."""
    op.execute("DELETE FROM uploaded_folders WHERE kind <> 'model'")
    op.drop_constraint(op.f(KIND), "uploaded_folders")
    op.alter_column("uploaded_folders", "family", nullable=False)
    op.drop_column("uploaded_folders", "dtype")
    op.drop_column("uploaded_folders", "architecture")
    op.drop_column("uploaded_folders", "kind")
