"""Studies and base models that are shared, and indexes for deletions."""

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None

KEY = "fk_base_models_shared_from"
UNIQUE = "uq_base_models_job_id"
BY_JOB = ("tokens", "idempotency_keys", "webhook_deliveries")
"""Tables that the deletion of a job looks through, once per job without an index."""
SHARED = "shared_from IS NOT NULL"
# The jobs of shared studies, those of the base models that they adapt, and those of shared base
# models. A view, so that jobs of an extension are shared from the moment at which they are linked.
VIEW = """
    CREATE VIEW shared_jobs AS
    SELECT share.project_id, link.job_id
        FROM study_shares AS share JOIN study_jobs AS link ON link.study_id = share.study_id
    UNION ALL
    SELECT share.project_id, pass.job_id
        FROM study_shares AS share JOIN study_passes AS pass ON pass.study_id = share.study_id
    UNION ALL
    SELECT share.project_id, base.job_id
        FROM study_shares AS share
        JOIN studies AS study ON study.id = share.study_id
        JOIN base_models AS base ON base.project_id = study.project_id
        WHERE base.name IN (
            SELECT link.base_model FROM study_jobs AS link WHERE link.study_id = study.id
        )
    UNION ALL
    SELECT base.project_id, base.job_id FROM base_models AS base WHERE base.shared_from IS NOT NULL
"""


def upgrade() -> None:
    """Add shares of studies, origins of base models, and the view of both."""
    op.create_table(
        "study_shares",
        sa.Column("project_id", sa.BigInteger(), nullable=False),
        sa.Column("study_id", sa.Uuid(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.func.clock_timestamp(),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_study_shares_project_id")
        ),
        sa.ForeignKeyConstraint(
            ["study_id"],
            ["studies.id"],
            name=op.f("fk_study_shares_study_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("project_id", "study_id", name=op.f("pk_study_shares")),
    )
    op.create_index(op.f("ix_study_shares_study_id"), "study_shares", ["study_id"])
    op.add_column("base_models", sa.Column("shared_from", sa.BigInteger(), nullable=True))
    op.create_foreign_key(op.f(KEY), "base_models", "projects", ["shared_from"], ["id"])
    op.drop_constraint(op.f(UNIQUE), "base_models")
    op.create_index(
        op.f("ix_base_models_job"),
        "base_models",
        ["job_id"],
        unique=True,
        postgresql_where=sa.text("shared_from IS NULL"),
    )
    # Partial indexes find no row by its job alone, as foreign keys and joins do.
    op.create_index(op.f("ix_base_models_job_id"), "base_models", ["job_id"])
    op.create_index(
        op.f("ix_base_models_received"),
        "base_models",
        ["project_id"],
        postgresql_where=sa.text(SHARED),
    )
    op.execute(VIEW)
    for table in BY_JOB:
        op.create_index(
            op.f(f"ix_{table}_job_id"),
            table,
            ["job_id"],
            postgresql_where=sa.text("job_id IS NOT NULL"),
        )


def downgrade() -> None:
    """Drop them; nothing stays shared but datasets."""
    for table in BY_JOB:
        op.drop_index(op.f(f"ix_{table}_job_id"), table)
    op.execute("DROP VIEW shared_jobs")
    op.execute("DELETE FROM base_models WHERE shared_from IS NOT NULL")
    for index in ("job", "job_id", "received"):
        op.drop_index(op.f(f"ix_base_models_{index}"), "base_models")
    op.create_unique_constraint(op.f(UNIQUE), "base_models", ["job_id"])
    op.drop_constraint(op.f(KEY), "base_models")
    op.drop_column("base_models", "shared_from")
    op.drop_table("study_shares")
