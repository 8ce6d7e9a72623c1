"""Groups of test items that are not independent."""

# pyright: reportUnknownMemberType=false

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0051"
down_revision = "0050"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Keep the group of every item beside its outcome."""
    groups = sa.Column("clusters", postgresql.ARRAY(sa.Integer()), nullable=True)
    op.add_column("item_outcomes", groups)
    op.add_column("evaluations", sa.Column("effective_items", sa.Float(), nullable=True))


def downgrade() -> None:
    """Count items as independent again."""
    op.drop_column("evaluations", "effective_items")
    op.drop_column("item_outcomes", "clusters")
