"""Indexes by lanes of queued jobs, and none that a heartbeat changes."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

QUEUED = sa.text("state = 'queued'")
RUNNING = sa.text("state = 'running'")


def upgrade() -> None:
    """Replace the indexes.

    Expired leases are found among the few running jobs.
    """
    lane = ["queue", "priority", "owner_id", "created_at", "id"]
    op.create_index("ix_jobs_lanes", "jobs", lane, postgresql_where=QUEUED)
    op.drop_index("ix_jobs_claim", "jobs")
    op.drop_index("ix_jobs_lease", "jobs")


def downgrade() -> None:
    """Restore the earlier indexes."""
    order = ["queue", sa.text("priority DESC"), "created_at", "id"]
    op.create_index("ix_jobs_lease", "jobs", ["lease_expires_at"], postgresql_where=RUNNING)
    op.create_index("ix_jobs_claim", "jobs", order, postgresql_where=QUEUED)
    op.drop_index("ix_jobs_lanes", "jobs")
