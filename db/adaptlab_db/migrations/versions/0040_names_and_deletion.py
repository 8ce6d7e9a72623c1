"""Names of jobs, and deletion of jobs that have ended."""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0038"
branch_labels = None
depends_on = None

GUARD = """
    CREATE OR REPLACE FUNCTION guard_job_states() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        -- A job that has ended stays as it is; only what users write on it is theirs to change.
        IF OLD.state IN ('succeeded', 'failed', 'cancelled') THEN
            IF to_jsonb(OLD) - {open} IS DISTINCT FROM to_jsonb(NEW) - {open}{and_retry} THEN
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
BEFORE = "'{labels,notes,archived_at}'::text[]"
# The retry of a job that is deleted forgets it; nothing else changes what a job is a retry of.
AFTER = "'{labels,notes,archived_at,name,retry_of}'::text[]"
AND_RETRY = """
                OR (NEW.retry_of IS NOT NULL AND NEW.retry_of IS DISTINCT FROM OLD.retry_of)"""
RETRY = "fk_jobs_retry_of"
# With the owner's rights, so that neither the API nor a worker needs the right to delete any job.
# Tokens stay, revoked, because the audit log and workers name them. Studies refuse by their keys.
DELETE = """
    CREATE FUNCTION delete_ended_jobs(wanted uuid[]) RETURNS void LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    BEGIN
        PERFORM FROM jobs WHERE id = ANY (wanted)
            AND state NOT IN ('succeeded', 'failed', 'cancelled');
        IF FOUND THEN
            RAISE EXCEPTION 'only jobs that have ended can be deleted'
                USING ERRCODE = 'check_violation';
        END IF;
        UPDATE tokens SET revoked_at = coalesce(revoked_at, clock_timestamp()), job_id = NULL
            WHERE job_id = ANY (wanted);
        DELETE FROM idempotency_keys WHERE job_id = ANY (wanted);
        DELETE FROM base_models WHERE job_id = ANY (wanted);
        DELETE FROM jobs WHERE id = ANY (wanted);
    END
    $$
"""


def upgrade() -> None:
    """Add the column and the function, and untie retries."""
    op.add_column("jobs", sa.Column("name", sa.Text(), nullable=True))
    _tie_retries(on_delete="SET NULL")
    op.execute(GUARD.format(open=AFTER, and_retry=AND_RETRY))
    op.execute(DELETE)


def downgrade() -> None:
    """Drop the names of jobs."""
    op.execute("DROP FUNCTION delete_ended_jobs")
    op.execute(GUARD.format(open=BEFORE, and_retry=""))
    _tie_retries(on_delete=None)
    op.drop_column("jobs", "name")


def _tie_retries(on_delete: str | None) -> None:
    op.drop_constraint(op.f(RETRY), "jobs")
    op.create_foreign_key(op.f(RETRY), "jobs", "jobs", ["retry_of"], ["id"], ondelete=on_delete)
