"""Counts for the server's metrics; the load of workers; ids of requests."""

# SQLAlchemy leaves the type argument of `Double()` open.
# pyright: reportUnknownArgumentType=false

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

# Of an id that is no UUID, what identifies it.
UUID_OF_REQUEST = """
    CASE WHEN request_id ~ '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$'
    THEN request_id::uuid ELSE md5(request_id)::uuid END"""
# Deferred, so that a count is locked only while its transaction commits. Sixteen rows per count,
# so that few transactions wait for each other.
FUNCTIONS = (
    """
    CREATE FUNCTION count_ended_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO attempt_counts AS counted (outcome, reason, shard, attempts)
        VALUES (NEW.outcome, coalesce(NEW.reason, ''), pg_backend_pid() % 16, 1)
        ON CONFLICT (outcome, reason, shard) DO UPDATE SET attempts = counted.attempts + 1;
        RETURN NULL;
    END
    $$""",
    """
    CREATE FUNCTION count_claim() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        claimed_from text;
        claimable_at timestamptz;
        waited double precision;
    BEGIN
        SELECT jobs.queue, greatest(jobs.run_at, coalesce(
            (SELECT at FROM job_events
             WHERE job_events.job_id = jobs.id AND job_events.type = 'queued'
             ORDER BY sequence DESC LIMIT 1),
            jobs.created_at))
        INTO claimed_from, claimable_at FROM jobs WHERE jobs.id = NEW.job_id;
        IF claimed_from IS NULL THEN
            RETURN NULL;
        END IF;
        waited := greatest(extract(epoch FROM NEW.started_at - claimable_at), 0);
        INSERT INTO claim_counts AS counted (queue, bucket, shard, claims, seconds)
        VALUES (
            claimed_from,
            width_bucket(waited, ARRAY[
                0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 21600, 86400
            ]::double precision[]),
            pg_backend_pid() % 16, 1, waited
        )
        ON CONFLICT (queue, bucket, shard) DO UPDATE
        SET claims = counted.claims + 1, seconds = counted.seconds + EXCLUDED.seconds;
        RETURN NULL;
    END
    $$""",
)
TRIGGERS = (
    """
    CREATE CONSTRAINT TRIGGER count_ended_attempt AFTER UPDATE ON attempts
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.outcome IS NULL AND NEW.outcome IS NOT NULL)
    EXECUTE FUNCTION count_ended_attempt()""",
    """
    CREATE CONSTRAINT TRIGGER count_claim AFTER INSERT ON attempts
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION count_claim()""",
)


def upgrade() -> None:
    """Add the counts, with the attempts that have ended before."""
    op.create_table(
        "attempt_counts",
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("shard", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("outcome", "reason", "shard", name=op.f("pk_attempt_counts")),
    )
    op.create_table(
        "claim_counts",
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("bucket", sa.Integer(), nullable=False),
        sa.Column("shard", sa.Integer(), nullable=False),
        sa.Column("claims", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("queue", "bucket", "shard", name=op.f("pk_claim_counts")),
    )
    for statement in (*FUNCTIONS, *TRIGGERS):
        op.execute(statement)
    # The triggers have locked the table, so none of these attempts is counted twice.
    op.execute(
        "INSERT INTO attempt_counts (outcome, reason, shard, attempts) "
        "SELECT outcome, coalesce(reason, ''), 0, count(*) FROM attempts "
        "WHERE outcome IS NOT NULL GROUP BY outcome, coalesce(reason, '')"
    )
    op.add_column("workers", sa.Column("load", postgresql.JSONB(), nullable=True))
    # Clients choose the ids of their requests, which need not be UUIDs.
    op.alter_column("audit_entries", "request_id", type_=sa.Text())


def downgrade() -> None:
    """Drop them; what was counted is lost, and so are ids that are not UUIDs."""
    op.alter_column(
        "audit_entries", "request_id", type_=sa.Uuid(), postgresql_using=UUID_OF_REQUEST
    )
    op.drop_column("workers", "load")
    for name in ("count_claim", "count_ended_attempt"):
        op.execute(f"DROP TRIGGER {name} ON attempts")
        op.execute(f"DROP FUNCTION {name}()")
    op.drop_table("claim_counts")
    op.drop_table("attempt_counts")
