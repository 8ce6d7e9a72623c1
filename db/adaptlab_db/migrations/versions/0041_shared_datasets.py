"""Datasets that are shared with other projects."""

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None

KEY = "fk_datasets_shared_from"


def upgrade() -> None:
    """Add the project that a dataset is shared from."""
    op.add_column("datasets", sa.Column("shared_from", sa.BigInteger(), nullable=True))
    op.create_foreign_key(op.f(KEY), "datasets", "projects", ["shared_from"], ["id"])
    op.create_index(
        op.f("ix_datasets_shared_from"),
        "datasets",
        ["shared_from", "name"],
        postgresql_where=sa.text("shared_from IS NOT NULL"),
    )


def downgrade() -> None:
    """Drop it: shared datasets become datasets of the projects that have them."""
    op.drop_index(op.f("ix_datasets_shared_from"), "datasets")
    op.drop_constraint(op.f(KEY), "datasets")
    op.drop_column("datasets", "shared_from")
