"""Indexes for rare values in specs and for groups; numbers in specs."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

GROUPED_BY = [
    *("kind", "base_model", "family", "task", "method"),
    *("budget_requested", "trainable_parameters"),
]
# UNION visits equal members only once. Names with a dot cannot be used in filters.
NUMBERS = """
    INSERT INTO spec_numbers (path, number)
    WITH RECURSIVE members (path, value) AS (
        SELECT one.key, one.value FROM {jobs} AS jobs, jsonb_each(jobs.resolved_spec) AS one
        WHERE jsonb_typeof(one.value) IN ('object', 'number') AND one.key ~ '^[A-Za-z0-9_-]+$'
        UNION
        SELECT members.path || '.' || one.key, one.value
        FROM members, LATERAL jsonb_each(
            CASE WHEN jsonb_typeof(members.value) = 'object' THEN members.value END
        ) AS one
        WHERE jsonb_typeof(one.value) IN ('object', 'number') AND one.key ~ '^[A-Za-z0-9_-]+$'
    )
    SELECT path, value::numeric FROM members
    WHERE jsonb_typeof(value) = 'number' AND NOT EXISTS (
        SELECT FROM spec_numbers AS there
        WHERE there.path = members.path AND there.number = members.value::numeric
    )
"""
OF_NEW_JOBS = (
    f"""
    CREATE FUNCTION spec_numbers_of_new_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        {NUMBERS.format(jobs="new_jobs")};
        RETURN NULL;
    END
    $$""",
    """
    CREATE TRIGGER spec_numbers_of_new_jobs AFTER INSERT ON jobs
    REFERENCING NEW TABLE AS new_jobs
    FOR EACH STATEMENT EXECUTE FUNCTION spec_numbers_of_new_jobs()""",
)


def upgrade() -> None:
    """Add the indexes, and the table with the numbers of existing jobs."""
    op.create_index(
        "ix_jobs_spec",
        "jobs",
        ["resolved_spec"],
        postgresql_using="gin",
        postgresql_ops={"resolved_spec": "jsonb_path_ops"},
    )
    op.create_index(
        "ix_jobs_results",
        "jobs",
        ["project_id", "id"],
        postgresql_where=sa.text("state = 'succeeded'"),
        postgresql_include=GROUPED_BY,
    )
    op.create_table(
        "spec_numbers",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("number", sa.Numeric(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_spec_numbers")),
    )
    op.create_index("ix_spec_numbers_path_number", "spec_numbers", ["path", "number"])
    op.execute(NUMBERS.format(jobs="jobs"))
    for statement in OF_NEW_JOBS:
        op.execute(statement)


def downgrade() -> None:
    """Drop them; all of it follows from the jobs."""
    op.execute("DROP TRIGGER spec_numbers_of_new_jobs ON jobs")
    op.execute("DROP FUNCTION spec_numbers_of_new_jobs()")
    op.drop_table("spec_numbers")
    op.drop_index("ix_jobs_results", "jobs")
    op.drop_index("ix_jobs_spec", "jobs")
