"""The progress of a run after its training."""

from functools import partial

import sqlalchemy as sa
from alembic import op

revision = "0053"
down_revision = "0052"
branch_labels = None
depends_on = None

COLUMNS = {
    "phase": sa.Text,
    "phase_done": sa.BigInteger,
    "phase_total": sa.BigInteger,
    "phase_since": partial(sa.DateTime, timezone=True),
}


def upgrade() -> None:
    """Add the columns, which are null for jobs of earlier versions."""
    for name, kind in COLUMNS.items():
        op.add_column("jobs", sa.Column(name, kind()))


def downgrade() -> None:
    """Drop the columns."""
    for name in COLUMNS:
        op.drop_column("jobs", name)
