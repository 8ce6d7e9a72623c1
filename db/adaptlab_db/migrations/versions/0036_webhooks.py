"""Webhooks with their events and deliveries; workers that were lost."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None

NOW = sa.text("clock_timestamp()")


def upgrade() -> None:
    """Add the tables, and consider workers that are silent now as lost."""
    op.create_table(
        "webhooks",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("project_id", sa.BigInteger(), nullable=False),
        sa.Column("owner_id", sa.BigInteger(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("events", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        _moment("created_at"),
        sa.CheckConstraint("format IN ('json', 'slack')", name=op.f("ck_webhooks_format")),
        _key_to("projects", "project_id", "webhooks"),
        _key_to("users", "owner_id", "webhooks"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
    )
    op.create_index(op.f("ix_webhooks_project_id"), "webhooks", ["project_id"])
    op.create_table(
        "webhook_events",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("project_id", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.Uuid(), nullable=True) for name in SUBJECTS),
        _moment("at"),
        sa.CheckConstraint(
            "num_nonnulls(job_id, study_id, worker_id) = 1",
            name=op.f("ck_webhook_events_one_subject"),
        ),
        *_keys_to_subjects("webhook_events"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_events")),
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("webhook_id", sa.BigInteger(), nullable=False),
        sa.Column("project_id", sa.BigInteger(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        *(sa.Column(name, sa.Uuid(), nullable=True) for name in SUBJECTS),
        sa.Column("state", sa.Text(), server_default="pending", nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        _moment("created_at"),
        _moment("next_attempt_at"),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state IN ('pending', 'delivered', 'failed')", name=op.f("ck_webhook_deliveries_state")
        ),
        sa.CheckConstraint(
            "(state = 'pending') = (ended_at IS NULL)", name=op.f("ck_webhook_deliveries_ended_at")
        ),
        _key_to("webhooks", "webhook_id", "webhook_deliveries", ondelete="CASCADE"),
        *_keys_to_subjects("webhook_deliveries"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_deliveries")),
        sa.UniqueConstraint("webhook_id", "key", name=op.f("uq_webhook_deliveries_webhook_id_key")),
    )
    op.create_index(
        "ix_webhook_deliveries_due",
        "webhook_deliveries",
        ["webhook_id", "next_attempt_at"],
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_index(
        "ix_webhook_deliveries_newest",
        "webhook_deliveries",
        ["webhook_id", sa.text("created_at DESC"), sa.text("id DESC")],
    )
    op.add_column("workers", sa.Column("lost_at", sa.DateTime(timezone=True), nullable=True))
    op.execute(
        "UPDATE workers SET lost_at = clock_timestamp() "
        "WHERE stopped_at IS NULL AND heartbeat_at < clock_timestamp() - interval '1 minute'"
    )


def downgrade() -> None:
    """Drop them with the messages that were not delivered."""
    op.drop_column("workers", "lost_at")
    for table in ("webhook_deliveries", "webhook_events", "webhooks"):
        op.drop_table(table)


SUBJECTS = {"job_id": "jobs", "study_id": "studies", "worker_id": "workers"}


def _moment(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), server_default=NOW, nullable=False)


def _key_to(
    other: str, column: str, table: str, ondelete: str | None = None
) -> sa.ForeignKeyConstraint:
    name = op.f(f"fk_{table}_{column}")
    return sa.ForeignKeyConstraint([column], [f"{other}.id"], name=name, ondelete=ondelete)


def _keys_to_subjects(table: str) -> tuple[sa.ForeignKeyConstraint, ...]:
    return (
        _key_to("projects", "project_id", table),
        *(
            _key_to(other, column, table, None if other == "workers" else "CASCADE")
            for column, other in SUBJECTS.items()
        ),
    )
