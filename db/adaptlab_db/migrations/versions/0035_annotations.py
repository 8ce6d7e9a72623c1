"""Notes and archiving of jobs and studies, and labels of studies."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

GUARD = """
    CREATE OR REPLACE FUNCTION guard_job_states() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        -- A job that has ended stays as it is; only what users write on it is theirs to change.
        IF OLD.state IN ('succeeded', 'failed', 'cancelled') THEN
            IF to_jsonb(OLD) - {open} IS DISTINCT FROM to_jsonb(NEW) - {open} THEN
                RAISE EXCEPTION 'job % has ended as % and cannot change', OLD.id, OLD.state
                    USING ERRCODE = 'check_violation';
            END IF;
        ELSIF OLD.state <> NEW.state AND (OLD.state, NEW.state) NOT IN (
            ('waiting', 'queued'), ('waiting', 'cancelled'), ('waiting', 'failed'),
            ('queued', 'running'), ('queued', 'cancelled'), ('queued', 'failed'),
            ('queued', 'paused'),
            ('running', 'succeeded'), ('running', 'failed'), ('running', 'cancelled'),
            ('running', 'queued'), ('running', 'paused'),
            ('paused', 'queued'), ('paused', 'cancelled')
        ) THEN
            RAISE EXCEPTION 'job % cannot go from % to %', OLD.id, OLD.state, NEW.state
                USING ERRCODE = 'check_violation';
        END IF;
        -- The attempt is the fencing token: every claim raises it by one, nothing else touches it.
        IF NEW.attempt <> OLD.attempt + (OLD.state = 'queued' AND NEW.state = 'running')::int THEN
            RAISE EXCEPTION 'job % cannot go from attempt % to % while it goes from % to %',
                OLD.id, OLD.attempt, NEW.attempt, OLD.state, NEW.state
                USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END
    $$
"""
ANNOTATIONS = "'{labels,notes,archived_at}'::text[]"


def upgrade() -> None:
    """Add the columns, which ended jobs may change too."""
    for table in ("jobs", "studies"):
        op.add_column(table, sa.Column("notes", sa.Text(), nullable=True))
        op.add_column(table, sa.Column("archived_at", sa.DateTime(timezone=True), nullable=True))
    labels = sa.Column("labels", postgresql.JSONB(), nullable=False, server_default="{}")
    op.add_column("studies", labels)
    op.create_index(
        "ix_jobs_archived",
        "jobs",
        [sa.text("created_at DESC"), sa.text("id DESC")],
        postgresql_where=sa.text("archived_at IS NOT NULL"),
    )
    op.execute(GUARD.format(open=ANNOTATIONS))


def downgrade() -> None:
    """Drop the columns with what was written in them."""
    op.execute(GUARD.format(open="'labels'"))
    op.drop_index("ix_jobs_archived", "jobs")
    op.drop_column("studies", "labels")
    for table in ("jobs", "studies"):
        op.drop_column(table, "archived_at")
        op.drop_column(table, "notes")
