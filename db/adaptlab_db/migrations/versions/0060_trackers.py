"""Trackers of projects, and the studies on them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0060"
down_revision = "0059"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
NOW = sa.text("clock_timestamp()")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "trackers",
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("owner_id", sa.BigInteger, sa.ForeignKey("users.id"), nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("experiment", sa.Text, nullable=False),
        sa.Column("sealed", sa.LargeBinary),
        sa.Column("created_at", MOMENT, server_default=NOW, nullable=False),
        sa.Column("claims", sa.Integer, server_default="0", nullable=False),
        sa.Column("failures", sa.Integer, server_default="0", nullable=False),
        sa.Column("next_attempt_at", MOMENT, server_default=NOW, nullable=False),
        sa.Column("sent_at", MOMENT),
        sa.CheckConstraint("kind IN ('mlflow', 'trackio')", name=op.f("ck_trackers_kind")),
        sa.UniqueConstraint(
            "project_id", "kind", "url", "experiment",
            name=op.f("uq_trackers_project_id_kind_url_experiment"),
        ),
    )  # fmt: skip
    of_tracker = sa.ForeignKey("trackers.id", ondelete="CASCADE")
    of_study = sa.ForeignKey("studies.id", ondelete="CASCADE")
    op.create_table(
        "tracked_studies",
        sa.Column("tracker_id", sa.BigInteger, of_tracker, primary_key=True),
        sa.Column("study_id", sa.Uuid, of_study, primary_key=True, index=True),
        sa.Column("changes", sa.Integer, server_default="1", nullable=False),
        sa.Column("due_at", MOMENT, server_default=NOW),
        sa.Column("failures", sa.Integer, server_default="0", nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("sent", JSONB, server_default="{}", nullable=False),
    )
    due = sa.text("due_at IS NOT NULL")
    op.create_index(
        "ix_tracked_studies_due", "tracked_studies", ["tracker_id", "due_at"], postgresql_where=due
    )


def downgrade() -> None:
    """Drop the tables; what was sent stays where it is."""
    op.drop_table("tracked_studies")
    op.drop_table("trackers")
