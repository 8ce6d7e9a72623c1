"""Trials beyond a learning rate, usage of attempts, and detached scores."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from adaptlab_db.migrations.unguarded import unguarded_jobs

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

UNIQUE = "uq_evaluations_job_id_attempt_replicate_split"
TRIALS = """
    UPDATE jobs SET resolved_spec = resolved_spec || jsonb_build_object(
        'spec_version', 2,
        'training', (resolved_spec -> 'training') - 'learning_rates' - 'weight_decay'
            || jsonb_build_object('trials', (
                SELECT jsonb_agg(jsonb_build_object(
                    'learning_rate', rate,
                    'weight_decay', resolved_spec #> '{training,weight_decay}',
                    'initial_scale', 1.0
                ) ORDER BY place)
                FROM jsonb_array_elements(resolved_spec #> '{training,learning_rates}')
                    WITH ORDINALITY AS rates (rate, place)
            ))
    )
"""
RATES = """
    UPDATE jobs SET resolved_spec = resolved_spec || jsonb_build_object(
        'spec_version', 1,
        'training', (resolved_spec -> 'training') - 'trials' || jsonb_build_object(
            'learning_rates',
            jsonb_path_query_array(resolved_spec, '$.training.trials[*].learning_rate'),
            'weight_decay', resolved_spec #> '{training,trials,0,weight_decay}'
        )
    )
"""


def upgrade() -> None:
    """Add the columns and write the trials of stored specs in full."""
    op.add_column("attempts", sa.Column("usage", postgresql.JSONB()))
    op.add_column(
        "evaluations",
        sa.Column("attached", sa.Boolean(), server_default=sa.true(), nullable=False),
    )
    op.drop_constraint(f"{UNIQUE}_task", "evaluations")
    op.create_unique_constraint(
        f"{UNIQUE}_attached_task",
        "evaluations",
        ["job_id", "attempt", "replicate", "split", "attached", "task"],
    )
    for name in ("weight_decay", "initial_scale"):
        op.add_column("replicates", sa.Column(name, sa.Double()))
    op.execute("""
        UPDATE replicates SET initial_scale = 1,
            weight_decay = (jobs.resolved_spec #>> '{training,weight_decay}')::float8
        FROM jobs WHERE jobs.id = replicates.job_id
    """)
    for name in ("weight_decay", "initial_scale"):
        op.alter_column("replicates", name, nullable=False)
    with unguarded_jobs():
        op.execute(TRIALS)


def downgrade() -> None:
    """Drop what the upgrade added.

    Of trials that differ in more than the rate, the first decay is kept.
    """
    with unguarded_jobs():
        op.execute(RATES)
    op.drop_column("replicates", "initial_scale")
    op.drop_column("replicates", "weight_decay")
    op.execute("DELETE FROM evaluations WHERE NOT attached")
    op.drop_constraint(f"{UNIQUE}_attached_task", "evaluations")
    op.create_unique_constraint(
        f"{UNIQUE}_task", "evaluations", ["job_id", "attempt", "replicate", "split", "task"]
    )
    op.drop_column("evaluations", "attached")
    op.drop_column("attempts", "usage")
