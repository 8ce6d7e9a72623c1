"""Metrics of jobs over their seeds, and indexes for queries over results."""

import math

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from adaptlab.statistics import seed_interval
from adaptlab.statistics.distributions import student_quantile

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

OF_SUMMARIES = {
    "ix_attention_summaries_layer": ["layer", "divergence", "map_id", "head"],
    "ix_attention_summaries_divergence": ["divergence", "map_id", "layer", "head"],
    "ix_attention_summaries_learned_mass": ["learned_mass", "map_id", "layer", "head"],
}
# The metrics of jobs that have ended, as the services store them for jobs that end later.
MEASURED = """
    WITH done AS (
        SELECT id, attempt, resolved_spec->'task' AS task FROM jobs WHERE state = 'succeeded'
    ), chosen AS (
        SELECT DISTINCT ON (r.job_id, r.seed)
            r.job_id, r.attempt, r.replicate, r.seed, r.final_loss
        FROM replicates r JOIN done ON done.id = r.job_id AND done.attempt = r.attempt
        WHERE r.selected ORDER BY r.job_id, r.seed, r.replicate
    ), scored AS (
        SELECT c.job_id, c.seed, e.attached, e.correct, e.total
        FROM chosen c JOIN done ON done.id = c.job_id
        JOIN evaluations e ON e.job_id = c.job_id AND e.attempt = c.attempt
            AND e.replicate = c.replicate AND e.split = 'test' AND e.task = done.task
    ), found AS (
        SELECT job_id, CASE WHEN attached THEN 'accuracy' ELSE 'base_accuracy' END AS name, seed,
            correct::float8 / total AS value, total AS items
        FROM scored
        UNION ALL
        SELECT a.job_id, 'accuracy_change', a.seed,
            a.correct::float8 / a.total - b.correct::float8 / b.total, NULL
        FROM scored a JOIN scored b USING (job_id, seed) WHERE a.attached AND NOT b.attached
        UNION ALL
        SELECT job_id, 'final_loss', seed, final_loss, NULL FROM chosen
        UNION ALL
        SELECT c.job_id, names.name, c.seed, last.value, NULL
        FROM chosen c
        CROSS JOIN (VALUES ('train_loss'), ('validation_loss'), ('validation_accuracy'))
            AS names (name)
        CROSS JOIN LATERAL (
            SELECT p.value FROM metric_points p
            WHERE p.job_id = c.job_id AND p.attempt = c.attempt AND p.name = names.name
                AND p.replicate = c.replicate
            ORDER BY p.step DESC LIMIT 1
        ) AS last
    )
    INSERT INTO job_metrics (job_id, name, seeds, values, items, n, mean, sd, min, max)
    SELECT job_id, name, array_agg(seed ORDER BY seed), array_agg(value ORDER BY seed),
        CASE WHEN count(items) > 0 THEN array_agg(items ORDER BY seed) END,
        count(*), avg(value), stddev_samp(value), min(value), max(value)
    FROM found
    WHERE value > '-Infinity' AND value < 'Infinity'
    GROUP BY job_id, name
"""


def upgrade() -> None:
    """Create the table, fill it for jobs that have ended, and add the indexes."""
    many = postgresql.ARRAY
    double = sa.Double[float]()
    op.create_table(
        "job_metrics",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("seeds", many(sa.BigInteger()), nullable=False),
        sa.Column("values", many(double), nullable=False),
        sa.Column("items", many(sa.Integer()), nullable=True),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("mean", double, nullable=False),
        *(sa.Column(name, double, nullable=True) for name in ("sd", "low", "high")),
        *(sa.Column(name, double, nullable=False) for name in ("min", "max")),
        sa.CheckConstraint(
            "cardinality(seeds) = cardinality(values)", name=op.f("ck_job_metrics_seeds")
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_job_metrics_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "name", name=op.f("pk_job_metrics")),
    )
    op.execute(MEASURED)
    _add_intervals()
    op.create_index("ix_job_metrics_mean", "job_metrics", ["name", "mean", "job_id"])
    newest = [sa.text("created_at DESC"), sa.text("id DESC")]
    op.create_index("ix_jobs_like", "jobs", ["kind", "task", "method", *newest])
    op.create_index("ix_jobs_trainable", "jobs", ["trainable_parameters", "id"])
    for name, columns in OF_SUMMARIES.items():
        op.create_index(name, "attention_summaries", columns)


def downgrade() -> None:
    """Drop them; all of it can be computed again."""
    for name in OF_SUMMARIES:
        op.drop_index(name, "attention_summaries")
    op.drop_index("ix_jobs_trainable", "jobs")
    op.drop_index("ix_jobs_like", "jobs")
    op.drop_table("job_metrics")


def _add_intervals() -> None:
    """Write the limits of the 95 % intervals, for which SQL has no quantiles."""
    bind = op.get_bind()
    rows = bind.execute(sa.text("SELECT job_id, name, values, items FROM job_metrics")).all()
    limits = [
        {"job_id": job_id, "name": name, "low": low, "high": high}
        for job_id, name, values, items in rows
        for low, high in [_limits(values, items)]
        if low is not None
    ]
    if limits:
        update = "UPDATE job_metrics SET low = :low, high = :high"
        bind.execute(sa.text(f"{update} WHERE job_id = :job_id AND name = :name"), limits)


def _limits(
    values: list[float], items: list[int] | None
) -> tuple[float, float] | tuple[None, None]:
    if items is not None:
        right = [round(value * of) for value, of in zip(values, items, strict=True)]
        found = seed_interval(right, items)
        return found.low, found.high
    if len(values) < 2:
        return None, None
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    reach = student_quantile(len(values) - 1, 0.975) * math.sqrt(variance / len(values))
    return mean - reach, mean + reach
