"""The first tables: people, artifacts, jobs, attempts and results."""

# SQLAlchemy leaves the type argument of `Double()` open.
# pyright: reportUnknownArgumentType=false

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = (
    "users",
    "tokens",
    "browser_sessions",
    "artifacts",
    "artifact_chunks",
    "jobs",
    "base_models",
    "idempotency_keys",
    "job_events",
    "workers",
    "attempts",
    "replicates",
    "metric_points",
    "evaluations",
    "item_outcomes",
    "attention_maps",
    "attention_summaries",
    "checkpoints",
)

GUARD_STATES = """
CREATE FUNCTION guard_job_states() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- A job that has ended stays as it is; only its labels are the owner's to change.
    IF OLD.state IN ('succeeded', 'failed', 'cancelled') THEN
        IF to_jsonb(OLD) - 'labels' IS DISTINCT FROM to_jsonb(NEW) - 'labels' THEN
            RAISE EXCEPTION 'job % has ended as % and cannot change', OLD.id, OLD.state
                USING ERRCODE = 'check_violation';
        END IF;
    ELSIF OLD.state <> NEW.state AND (OLD.state, NEW.state) NOT IN (
        ('waiting', 'queued'), ('waiting', 'cancelled'), ('waiting', 'failed'),
        ('queued', 'running'), ('queued', 'cancelled'), ('queued', 'failed'), ('queued', 'paused'),
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


def upgrade() -> None:
    """Create all tables."""
    _create_people()
    _create_artifacts()
    _create_jobs()
    _create_attempts()
    _create_scores()
    _create_evidence()
    op.execute("ALTER TABLE artifact_chunks ALTER COLUMN content SET STORAGE EXTERNAL")
    op.execute(GUARD_STATES)
    op.execute(
        "CREATE TRIGGER guard_states BEFORE UPDATE ON jobs "
        "FOR EACH ROW EXECUTE FUNCTION guard_job_states()"
    )


def downgrade() -> None:
    """Drop all tables."""
    for table in reversed(TABLES):
        op.drop_table(table)
    op.execute("DROP FUNCTION guard_job_states()")


def _create_people() -> None:
    op.create_table(
        "users",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.UniqueConstraint("name", name="uq_users_name"),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_tokens_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("digest", name="uq_tokens_digest"),
    )
    op.create_table(
        "browser_sessions",
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("token_id", sa.BigInteger(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["token_id"], ["tokens.id"], name="fk_browser_sessions_token_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("digest", name="pk_browser_sessions"),
    )


def _create_artifacts() -> None:
    op.create_table(
        "artifacts",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("store", sa.Text(), server_default="postgres", nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("sha256", name="pk_artifacts"),
    )
    op.create_table(
        "artifact_chunks",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["sha256"],
            ["artifacts.sha256"],
            name="fk_artifact_chunks_sha256",
            ondelete="CASCADE",
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.PrimaryKeyConstraint("sha256", "number", name="pk_artifact_chunks"),
    )


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("owner_id", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("base_model", sa.Text(), nullable=True),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=True),
        sa.Column("budget_requested", sa.BigInteger(), nullable=True),
        sa.Column("trainable_parameters", sa.BigInteger(), nullable=False),
        sa.Column("spec", postgresql.JSONB(), nullable=False),
        sa.Column("resolved_spec", postgresql.JSONB(), nullable=False),
        sa.Column("spec_digest", sa.Text(), nullable=False),
        sa.Column("labels", postgresql.JSONB(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("max_seconds", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("attempts_max", sa.Integer(), server_default="3", nullable=False),
        sa.Column("worker_id", sa.Uuid(), nullable=True),
        sa.Column("lease_expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "run_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("cancel_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("step", sa.Integer(), server_default="0", nullable=False),
        sa.Column("total_steps", sa.Integer(), nullable=False),
        sa.Column("event_sequence", sa.Integer(), server_default="0", nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(state = 'running') = (lease_expires_at IS NOT NULL)",
            name=op.f("ck_jobs_running_has_lease"),
        ),
        sa.CheckConstraint(
            "state IN ('waiting', 'queued', 'running', 'paused', "
            "'succeeded', 'failed', 'cancelled')",
            name=op.f("ck_jobs_state"),
        ),
        sa.ForeignKeyConstraint(["owner_id"], ["users.id"], name="fk_jobs_owner_id"),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index("ix_jobs_base_model", "jobs", ["base_model"], unique=False)
    op.create_index(
        "ix_jobs_claim",
        "jobs",
        ["queue", sa.literal_column("priority DESC"), "created_at", "id"],
        unique=False,
        postgresql_where=sa.text("state = 'queued'"),
    )
    op.create_index("ix_jobs_digest", "jobs", ["spec_digest"], unique=False)
    op.create_index("ix_jobs_labels", "jobs", ["labels"], unique=False, postgresql_using="gin")
    op.create_index(
        "ix_jobs_lease",
        "jobs",
        ["lease_expires_at"],
        unique=False,
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_index("ix_jobs_method", "jobs", ["method"], unique=False)
    op.create_index(
        "ix_jobs_newest",
        "jobs",
        [sa.literal_column("created_at DESC"), sa.literal_column("id DESC")],
        unique=False,
    )
    op.create_index("ix_jobs_owner_id", "jobs", ["owner_id"], unique=False)
    op.create_index(
        "ix_jobs_running_owner",
        "jobs",
        ["owner_id"],
        unique=False,
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_index("ix_jobs_state", "jobs", ["state"], unique=False)
    op.create_index("ix_jobs_task", "jobs", ["task"], unique=False)
    op.create_table(
        "base_models",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_base_models_job_id"),
        sa.PrimaryKeyConstraint("name", name="pk_base_models"),
        sa.UniqueConstraint("job_id", name="uq_base_models_job_id"),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("owner_id", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_digest", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_idempotency_keys_job_id"),
        sa.ForeignKeyConstraint(["owner_id"], ["users.id"], name="fk_idempotency_keys_owner_id"),
        sa.PrimaryKeyConstraint("owner_id", "key", name="pk_idempotency_keys"),
    )
    op.create_table(
        "job_events",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column(
            "at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("data", postgresql.JSONB(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_job_events_job_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "sequence", name="pk_job_events"),
    )


def _create_attempts() -> None:
    op.create_table(
        "workers",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("process_id", sa.Integer(), nullable=False),
        sa.Column("queues", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column(
            "heartbeat_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("stopped_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
    )
    op.create_table(
        "attempts",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("worker_id", sa.Uuid(), nullable=False),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("first_step_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("environment", postgresql.JSONB(), nullable=True),
        sa.CheckConstraint(
            "outcome IN ('succeeded', 'failed', 'cancelled', 'released', 'paused', 'lost')",
            name=op.f("ck_attempts_outcome"),
        ),
        sa.CheckConstraint(
            "(ended_at IS NULL) = (outcome IS NULL)", name=op.f("ck_attempts_ended_has_outcome")
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_attempts_job_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "attempt", name="pk_attempts"),
    )


def _create_scores() -> None:
    op.create_table(
        "replicates",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("replicate", sa.Integer(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("trial", sa.Integer(), nullable=False),
        sa.Column("learning_rate", sa.Double(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("selected", sa.Boolean(), nullable=False),
        sa.Column("final_loss", sa.Double(), nullable=True),
        sa.Column("validation_accuracy", sa.Double(), nullable=True),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id", "attempt"],
            ["attempts.job_id", "attempts.attempt"],
            name="fk_replicates_job_id_attempt",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_id", "attempt", "replicate", name="pk_replicates"),
    )
    op.create_table(
        "metric_points",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("replicate", sa.Integer(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id", "attempt"],
            ["attempts.job_id", "attempts.attempt"],
            name="fk_metric_points_job_id_attempt",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "job_id", "attempt", "name", "replicate", "step", name="pk_metric_points"
        ),
    )
    op.create_table(
        "evaluations",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("replicate", sa.Integer(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("task_name", sa.Text(), nullable=False),
        sa.Column("task", postgresql.JSONB(), nullable=False),
        sa.Column("split", sa.Text(), nullable=False),
        sa.Column("correct", sa.Integer(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "total > 0 AND correct BETWEEN 0 AND total", name=op.f("ck_evaluations_score")
        ),
        sa.ForeignKeyConstraint(
            ["job_id", "attempt"],
            ["attempts.job_id", "attempts.attempt"],
            name="fk_evaluations_job_id_attempt",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_evaluations"),
        sa.UniqueConstraint(
            "job_id",
            "attempt",
            "replicate",
            "split",
            "task",
            name="uq_evaluations_job_id_attempt_replicate_split_task",
        ),
    )
    op.create_index(
        "ix_evaluations_score",
        "evaluations",
        ["task_name", sa.literal_column("(correct::float8 / total) DESC")],
        unique=False,
    )
    op.create_table(
        "item_outcomes",
        sa.Column("evaluation_id", sa.BigInteger(), nullable=False),
        sa.Column("bits", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["evaluation_id"],
            ["evaluations.id"],
            name="fk_item_outcomes_evaluation_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("evaluation_id", name="pk_item_outcomes"),
    )


def _create_evidence() -> None:
    op.create_table(
        "attention_maps",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("replicate", sa.Integer(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("artifact_sha256", sa.Text(), nullable=False),
        sa.Column("shape", postgresql.ARRAY(sa.Integer()), nullable=False),
        sa.Column("axes", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("learned_positions", sa.Integer(), nullable=False),
        sa.Column("target_start", sa.Integer(), nullable=False),
        sa.Column("samples", postgresql.JSONB(), nullable=False),
        sa.ForeignKeyConstraint(
            ["artifact_sha256"], ["artifacts.sha256"], name="fk_attention_maps_artifact_sha256"
        ),
        sa.ForeignKeyConstraint(
            ["job_id", "attempt"],
            ["attempts.job_id", "attempts.attempt"],
            name="fk_attention_maps_job_id_attempt",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_attention_maps"),
        sa.UniqueConstraint(
            "job_id",
            "attempt",
            "replicate",
            "source",
            name="uq_attention_maps_job_id_attempt_replicate_source",
        ),
    )
    op.create_table(
        "attention_summaries",
        sa.Column("map_id", sa.BigInteger(), nullable=False),
        sa.Column("layer", sa.Integer(), nullable=False),
        sa.Column("head", sa.Integer(), nullable=False),
        sa.Column("entropy", sa.Double(), nullable=False),
        sa.Column("learned_mass", sa.Double(), nullable=False),
        sa.Column("divergence", sa.Double(), nullable=False),
        sa.Column("relative_deviation", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["map_id"],
            ["attention_maps.id"],
            name="fk_attention_summaries_map_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("map_id", "layer", "head", name="pk_attention_summaries"),
    )
    op.create_index(
        "ix_attention_summaries_deviation",
        "attention_summaries",
        ["layer", "head", "relative_deviation"],
        unique=False,
    )
    op.create_table(
        "checkpoints",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("replicate", sa.Integer(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("artifact_sha256", sa.Text(), nullable=False),
        sa.Column("parameters", sa.BigInteger(), nullable=False),
        sa.Column("tensors", postgresql.JSONB(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["artifact_sha256"], ["artifacts.sha256"], name="fk_checkpoints_artifact_sha256"
        ),
        sa.ForeignKeyConstraint(
            ["job_id", "attempt"],
            ["attempts.job_id", "attempts.attempt"],
            name="fk_checkpoints_job_id_attempt",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_checkpoints"),
        sa.UniqueConstraint(
            "job_id",
            "attempt",
            "replicate",
            "kind",
            name="uq_checkpoints_job_id_attempt_replicate_kind",
        ),
    )
