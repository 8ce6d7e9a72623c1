"""Studies that plan their own runs: their passes and decisions."""

# SQLAlchemy leaves the type argument of `Double()` open.
# pyright: reportUnknownArgumentType=false

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None

ROLES = "role IN ('method', 'reference', 'base_model', 'check'{})"


def upgrade() -> None:
    """Create the tables, and allow jobs that only sweep rates in studies."""
    op.add_column(
        "studies", sa.Column("question_open", sa.Boolean(), nullable=False, server_default="false")
    )
    op.create_index(
        "ix_studies_question_open", "studies", ["id"], postgresql_where=sa.text("question_open")
    )
    op.create_table(
        "study_decisions",
        sa.Column("study_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column(
            "at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("hours", sa.Double(), nullable=False),
        sa.Column("question", postgresql.JSONB(), nullable=False),
        sa.Column("states", postgresql.JSONB(), nullable=False),
        sa.Column("look", postgresql.JSONB(), nullable=False),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], op.f("fk_study_decisions_study_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("study_id", "number", name="pk_study_decisions"),
    )
    op.create_table(
        "study_passes",
        sa.Column("study_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("base_model", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("budget", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("seeds", postgresql.JSONB(), nullable=False),
        sa.Column("rates", postgresql.JSONB(), nullable=False),
        sa.Column("replicate_steps", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("planned_in", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False, server_default="open"),
        sa.Column("times_longer", sa.Integer(), nullable=False, server_default="1"),
        sa.CheckConstraint(
            "kind IN ('sweep', 'wider', 'evidence')", name=op.f("ck_study_passes_kind")
        ),
        sa.CheckConstraint(
            "state IN ('open', 'done', 'failed', 'dropped')", name=op.f("ck_study_passes_state")
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], op.f("fk_study_passes_job_id")),
        sa.ForeignKeyConstraint(
            ["study_id", "planned_in"],
            ["study_decisions.study_id", "study_decisions.number"],
            op.f("fk_study_passes_study_id_planned_in"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("study_id", "number", name="pk_study_passes"),
    )
    op.create_index("ix_study_passes_job_id", "study_passes", ["job_id"])
    op.drop_constraint(op.f("ck_study_jobs_role"), "study_jobs")
    op.create_check_constraint(op.f("ck_study_jobs_role"), "study_jobs", ROLES.format(", 'sweep'"))


def downgrade() -> None:
    """Drop the tables; studies keep the jobs that count as evidence."""
    op.execute("DELETE FROM study_jobs WHERE role = 'sweep'")
    op.drop_constraint(op.f("ck_study_jobs_role"), "study_jobs")
    op.create_check_constraint(op.f("ck_study_jobs_role"), "study_jobs", ROLES.format(""))
    op.drop_table("study_passes")
    op.drop_table("study_decisions")
    op.drop_index("ix_studies_question_open", "studies")
    op.drop_column("studies", "question_open")
