"""The project of a job in each of its metrics, to save queries a lookup."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column and fill it from the jobs."""
    op.add_column("job_metrics", sa.Column("project_id", sa.BigInteger(), nullable=True))
    op.execute(
        "UPDATE job_metrics SET project_id = jobs.project_id FROM jobs "
        "WHERE jobs.id = job_metrics.job_id"
    )
    op.alter_column("job_metrics", "project_id", nullable=False)
    op.create_foreign_key(
        op.f("fk_job_metrics_project_id"),
        "job_metrics",
        "projects",
        ["project_id"],
        ["id"],
    )


def downgrade() -> None:
    """Drop the column; it follows from the jobs."""
    op.drop_column("job_metrics", "project_id")
