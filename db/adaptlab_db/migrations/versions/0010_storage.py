"""The stores of artifacts, and the states of their bytes."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

REFERRING = ("attention_maps", "checkpoints", "training_states")


def upgrade() -> None:
    """Add the columns; existing artifacts are in Postgres, and ready."""
    now = sa.text("clock_timestamp()")
    moment = sa.DateTime(timezone=True)
    op.add_column("artifacts", sa.Column("key", sa.Text(), nullable=True))
    op.add_column(
        "artifacts", sa.Column("state", sa.Text(), server_default="ready", nullable=False)
    )
    op.add_column("artifacts", sa.Column("reason", sa.Text(), nullable=True))
    op.add_column(
        "artifacts", sa.Column("last_referenced_at", moment, server_default=now, nullable=False)
    )
    op.add_column("artifacts", sa.Column("checked_at", moment, nullable=True))
    _check("state", "state IN ('ready', 'quarantined', 'collected')")
    _check("reason", "(state = 'ready') = (reason IS NULL)")
    _check("key", "(store = 'postgres') = (key IS NULL)")
    has_key = sa.text("key IS NOT NULL")
    op.create_index(
        "ix_artifacts_key", "artifacts", ["store", "key"], unique=True, postgresql_where=has_key
    )
    for table in REFERRING:
        op.create_index(f"ix_{table}_artifact_sha256", table, ["artifact_sha256"])


def downgrade() -> None:
    """Drop what the upgrade added.

    This is refused if artifacts are in stores that the earlier version cannot read.
    """
    _refuse_to_forget()
    for table in REFERRING:
        op.drop_index(f"ix_{table}_artifact_sha256", table)
    op.drop_index("ix_artifacts_key", "artifacts")
    for name in ("key", "reason", "state"):
        op.drop_constraint(op.f(f"ck_artifacts_{name}"), "artifacts")
    for column in ("checked_at", "last_referenced_at", "reason", "state", "key"):
        op.drop_column("artifacts", column)


def _check(name: str, condition: str) -> None:
    op.create_check_constraint(op.f(f"ck_artifacts_{name}"), "artifacts", condition)


def _refuse_to_forget() -> None:
    elsewhere = "SELECT count(*) FROM artifacts WHERE store <> 'postgres'"
    count = op.get_bind().execute(sa.text(elsewhere)).scalar_one()
    if count:
        raise RuntimeError(
            f"{count} artifacts lie outside Postgres; `adaptlab storage move --to postgres` first."
        )
