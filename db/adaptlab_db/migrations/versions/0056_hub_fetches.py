"""Fetches of models from a hub, tokens for it, and origins of folders."""

from datetime import datetime

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0056"
down_revision = "0055"
branch_labels = None
depends_on = None

NOW = sa.text("clock_timestamp()")
CONTENT = ["owner_id", "sha256", "size_bytes"]
ACTIVE = "state IN ('pending', 'running')"


def _moment(name: str, default: sa.TextClause | None = None) -> sa.Column[datetime]:
    kind = sa.DateTime(timezone=True)
    return sa.Column(name, kind, server_default=default, nullable=default is None)


def upgrade() -> None:
    """Create the tables, and add the columns of folders and uploads.

    The origin is null for folders that were uploaded.
    """
    op.add_column("uploaded_folders", sa.Column("origin", JSONB, nullable=True))
    op.add_column(
        "uploads",
        sa.Column("of_hub", sa.Boolean, server_default=sa.text("false"), nullable=False),
    )
    op.drop_index("ix_uploads_content", "uploads")
    op.create_index("ix_uploads_content", "uploads", [*CONTENT, "of_hub"], unique=True)
    op.create_table(
        "hub_fetches",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("owner_id", sa.BigInteger, sa.ForeignKey("users.id"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("endpoint", sa.Text, nullable=False),
        sa.Column("repository", sa.Text, nullable=False),
        sa.Column("revision", sa.Text, nullable=False),
        sa.Column("commit", sa.Text),
        sa.Column("base_model", JSONB),
        sa.Column("plan_only", sa.Boolean, server_default=sa.text("false"), nullable=False),
        sa.Column("plan", JSONB),
        sa.Column("state", sa.Text, server_default="pending", nullable=False),
        sa.Column("attempts", sa.Integer, server_default="0", nullable=False),
        sa.Column("failures", sa.Integer, server_default="0", nullable=False),
        sa.Column("holder", sa.Text),
        sa.Column("bytes_done", sa.BigInteger, server_default="0", nullable=False),
        sa.Column("bytes_total", sa.BigInteger),
        sa.Column("bytes_begun", sa.BigInteger, server_default="0", nullable=False),
        _moment("begun_at"),
        sa.Column("code", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("job_id", sa.Uuid, sa.ForeignKey("jobs.id", ondelete="SET NULL")),
        _moment("created_at", NOW),
        _moment("next_attempt_at", NOW),
        _moment("ended_at"),
        sa.CheckConstraint(
            "state IN ('pending', 'running', 'succeeded', 'failed', 'cancelled')",
            name=op.f("ck_hub_fetches_state"),
        ),
        sa.CheckConstraint(
            f"({ACTIVE}) = (ended_at IS NULL)", name=op.f("ck_hub_fetches_ended_at")
        ),
    )
    op.create_table(
        "hub_tokens",
        sa.Column("user_id", sa.BigInteger, sa.ForeignKey("users.id"), primary_key=True),
        sa.Column("endpoint", sa.Text, primary_key=True),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("set_at", sa.DateTime(timezone=True), nullable=False),
    )
    active, some = sa.text(ACTIVE), sa.text("job_id IS NOT NULL")
    op.create_index(
        "ix_hub_fetches_due", "hub_fetches", ["next_attempt_at"], postgresql_where=active
    )
    op.create_index(
        "ix_hub_fetches_active",
        "hub_fetches",
        ["project_id", "name"],
        unique=True,
        postgresql_where=active,
    )
    newest = [sa.text("created_at DESC"), sa.text("id DESC")]
    op.create_index("ix_hub_fetches_newest", "hub_fetches", newest)
    op.create_index("ix_hub_fetches_job_id", "hub_fetches", ["job_id"], postgresql_where=some)


def downgrade() -> None:
    """Drop the tables and the columns; half-fetched files are fetched again."""
    op.drop_table("hub_tokens")
    op.drop_table("hub_fetches")
    op.execute(sa.text("DELETE FROM uploads WHERE of_hub"))
    op.drop_index("ix_uploads_content", "uploads")
    op.create_index("ix_uploads_content", "uploads", CONTENT, unique=True)
    op.drop_column("uploads", "of_hub")
    op.drop_column("uploaded_folders", "origin")
