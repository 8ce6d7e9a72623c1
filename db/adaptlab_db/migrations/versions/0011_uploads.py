"""Uploads in chunks that can be resumed."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

BEFORE = "state IN ('ready', 'quarantined', 'collected')"
AFTER = "state IN ('ready', 'quarantined', 'collected', 'uploading')"


def upgrade() -> None:
    """Add the tables and the state of an artifact that is still arriving."""
    _check_states(AFTER)
    now = sa.text("clock_timestamp()")
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "uploads",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("owner_id", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("artifact_sha256", sa.Text(), nullable=False),
        sa.Column("created_at", moment, server_default=now, nullable=False),
        sa.Column("expires_at", moment, nullable=False),
        sa.CheckConstraint("size_bytes > 0", name=op.f("ck_uploads_size_bytes")),
        sa.ForeignKeyConstraint(["owner_id"], ["users.id"], name=op.f("fk_uploads_owner_id")),
        sa.ForeignKeyConstraint(
            ["artifact_sha256"], ["artifacts.sha256"], name=op.f("fk_uploads_artifact_sha256")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_uploads")),
    )
    content = ["owner_id", "sha256", "size_bytes"]
    op.create_index("ix_uploads_content", "uploads", content, unique=True)
    op.create_index("ix_uploads_artifact_sha256", "uploads", ["artifact_sha256"])
    op.create_index("ix_uploads_expires_at", "uploads", ["expires_at"])
    op.create_table(
        "upload_chunks",
        sa.Column("upload_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["upload_id"],
            ["uploads.id"],
            name=op.f("fk_upload_chunks_upload_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("upload_id", "number", name=op.f("pk_upload_chunks")),
    )


def downgrade() -> None:
    """Drop them, with unfinished uploads."""
    op.drop_table("upload_chunks")
    op.drop_table("uploads")
    op.execute("DELETE FROM artifacts WHERE state = 'uploading'")
    _check_states(BEFORE)


def _check_states(condition: str) -> None:
    op.drop_constraint(op.f("ck_artifacts_state"), "artifacts")
    op.create_check_constraint(op.f("ck_artifacts_state"), "artifacts", condition)
