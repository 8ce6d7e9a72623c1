"""Studies, jobs in their cells, and idempotency keys that a study answers."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

CELL = ["study_id", "base_model", "task", "method", "budget", "job_id"]


def upgrade() -> None:
    """Add the two tables, and studies as answers of idempotency keys."""
    op.create_table(
        "studies",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("owner_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("spec", postgresql.JSONB(), nullable=False),
        sa.Column("skipped", postgresql.JSONB(), nullable=False),
        _now("created_at"),
        sa.Column("extended_at", sa.DateTime(timezone=True)),
        sa.Column("cancelled_at", sa.DateTime(timezone=True)),
        sa.ForeignKeyConstraint(["owner_id"], ["users.id"], name="fk_studies_owner_id"),
        sa.PrimaryKeyConstraint("id", name="pk_studies"),
        sa.UniqueConstraint("name", name="uq_studies_name"),
    )
    op.create_index("ix_studies_owner_id", "studies", ["owner_id"])
    newest = [sa.text("created_at DESC"), sa.text("id DESC")]
    op.create_index("ix_studies_newest", "studies", newest)
    _create_study_jobs()
    op.alter_column("idempotency_keys", "job_id", nullable=True)
    op.add_column("idempotency_keys", sa.Column("study_id", sa.Uuid()))
    op.create_foreign_key(
        "fk_idempotency_keys_study_id", "idempotency_keys", "studies", ["study_id"], ["id"]
    )
    op.create_check_constraint(
        op.f("ck_idempotency_keys_one_answer"),
        "idempotency_keys",
        "num_nonnulls(job_id, study_id) = 1",
    )


def downgrade() -> None:
    """Drop all studies; their jobs stay."""
    op.drop_constraint(op.f("ck_idempotency_keys_one_answer"), "idempotency_keys")
    op.execute("DELETE FROM idempotency_keys WHERE job_id IS NULL")
    op.drop_column("idempotency_keys", "study_id")
    op.alter_column("idempotency_keys", "job_id", nullable=False)
    op.drop_table("study_jobs")
    op.drop_table("studies")


def _create_study_jobs() -> None:
    op.create_table(
        "study_jobs",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("study_id", sa.Uuid(), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("base_model", sa.Text(), nullable=False),
        sa.Column("task", sa.Text()),
        sa.Column("method", sa.Text()),
        sa.Column("budget", sa.BigInteger()),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("over_budget", sa.Boolean(), nullable=False),
        sa.Column("reused", sa.Boolean(), nullable=False),
        sa.CheckConstraint(
            "role IN ('method', 'reference', 'base_model')", name=op.f("ck_study_jobs_role")
        ),
        sa.CheckConstraint(
            "CASE role WHEN 'base_model' THEN num_nonnulls(task, method, budget) = 0 "
            "ELSE num_nonnulls(task, method, budget) = 3 END",
            name=op.f("ck_study_jobs_cell"),
        ),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name="fk_study_jobs_study_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_study_jobs_job_id"),
        sa.PrimaryKeyConstraint("id", name="pk_study_jobs"),
    )
    op.create_index("ix_study_jobs_job_id", "study_jobs", ["job_id"])
    op.create_index(
        "ix_study_jobs_cell", "study_jobs", CELL, unique=True, postgresql_nulls_not_distinct=True
    )


def _now(name: str) -> sa.Column[object]:
    now = sa.func.clock_timestamp()
    return sa.Column(name, sa.DateTime(timezone=True), server_default=now, nullable=False)
