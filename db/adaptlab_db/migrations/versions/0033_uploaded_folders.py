"""Uploaded model folders."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "uploaded_folders",
        sa.Column("project_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("owner_id", sa.BigInteger(), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("parameters", sa.BigInteger(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name="fk_uploaded_folders_project_id"
        ),
        sa.ForeignKeyConstraint(["owner_id"], ["users.id"], name="fk_uploaded_folders_owner_id"),
        sa.PrimaryKeyConstraint("project_id", "name", name="pk_uploaded_folders"),
    )
    op.create_index("ix_uploaded_folders_owner_id", "uploaded_folders", ["owner_id"])
    op.create_table(
        "uploaded_folder_files",
        sa.Column("project_id", sa.BigInteger(), nullable=False),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("artifact_sha256", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["project_id", "folder"],
            ["uploaded_folders.project_id", "uploaded_folders.name"],
            name="fk_uploaded_folder_files_project_id_folder",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["artifact_sha256"],
            ["artifacts.sha256"],
            name="fk_uploaded_folder_files_artifact_sha256",
        ),
        sa.PrimaryKeyConstraint("project_id", "folder", "name", name="pk_uploaded_folder_files"),
    )
    op.create_index(
        "ix_uploaded_folder_files_artifact_sha256", "uploaded_folder_files", ["artifact_sha256"]
    )


def downgrade() -> None:
    """Drop them; the base models imported from them cannot be used."""
    op.drop_table("uploaded_folder_files")
    op.drop_table("uploaded_folders")
