"""A database as full as a busy lab's, made by Postgres itself: 100,000 jobs, 10 million points."""

import json
from dataclasses import dataclass
from typing import Any

import psycopg
from pydantic import TypeAdapter

from adaptlab.specs.resolve import BaseModelFacts, resolve
from adaptlab.specs.resolved import spec_digest, write_resolved
from adaptlab.specs.spec import AdaptSpec, AnySpec, JobSpec, PretrainSpec
from bench.own_stack import BASE, TINY

JOBS = 100_000
CURVES = ("train_loss", "validation_loss")
POINTS = 50  # of a curve
SEEDS = 3
STEPS = 20  # numbers of steps, in hundreds
MAPPED = 10  # one job in so many has attention maps
LAYERS = HEADS = 4
METHODS = ("lora", "prefix_tuning", "soft_prompt", "ia3", "bitfit")
TASKS = ("sort_descending", "sort_then_add", "copy", "reverse")
METRICS = ("accuracy", "base_accuracy", "accuracy_change", "final_loss", "train_loss")

# In an order that foreign keys would allow; every figure follows from the number of its row.
STATEMENTS = (
    (
        "jobs",
        """
    INSERT INTO jobs (id, owner_id, project_id, state, kind, base_model, family, task, method,
        budget_requested, trainable_parameters, spec, resolved_spec, spec_digest, labels,
        queue, priority, max_seconds, attempt, step, total_steps, event_sequence,
        created_at, started_at, finished_at)
    SELECT md5(n::text)::uuid, users.id, projects.id,
        CASE WHEN n %% 20 = 0 THEN 'failed' ELSE 'succeeded' END, 'adapt',
        'base-' || n %% 7, 'minigpt', (%(tasks)s::text[])[1 + n %% 4],
        (%(methods)s::text[])[1 + n / 4 %% 5], 2 ^ (4 + n %% 11), 2 ^ (4 + n %% 11) - n %% 5,
        %(spec)s::jsonb,
        jsonb_set(%(resolved)s::jsonb, '{training,steps}', to_jsonb(100 * (1 + n %% %(lengths)s))),
        md5((n / 3)::text),
        jsonb_build_object('team', 'team-' || n %% 50, 'run', n::text),
        'cpu', 0, 3600, 1, 1000, 1000, 3, moment, moment, moment + interval '1 minute'
    FROM generate_series(1, %(jobs)s) AS n,
        users, projects, LATERAL (SELECT timestamptz '2025-01-01' + n * interval '1 minute')
            AS at (moment)
    WHERE users.name = %(owner)s AND projects.name = 'default'""",
    ),
    (
        "attempts",
        """
    INSERT INTO attempts (job_id, attempt, worker_id, started_at, ended_at, outcome)
    SELECT id, 1, id, started_at, finished_at, state FROM jobs""",
    ),
    (
        "replicates",
        """
    INSERT INTO replicates (job_id, attempt, replicate, seed, trial, learning_rate,
        weight_decay, initial_scale, status, selected, final_loss, steps)
    SELECT id, 1, n, n, 0, 0.01, 0, 1, 'completed', true, random(), 1000
    FROM jobs, generate_series(0, %(seeds)s - 1) AS n""",
    ),
    (
        "metric_points",
        """
    INSERT INTO metric_points (job_id, attempt, name, replicate, step, value)
    SELECT id, 1, name, 0, 20 * n, 1.0 / n
    FROM (SELECT id FROM jobs ORDER BY id) AS jobs, unnest(%(curves)s::text[]) AS name,
        generate_series(1, %(points)s) AS n""",
    ),
    (
        "job_metrics",
        """
    INSERT INTO job_metrics (job_id, name, seeds, values, items, n, mean, sd, low, high, min,
        max)
    SELECT id, name, ARRAY[0, 1, 2], ARRAY[share - 0.01, share, share + 0.01],
        ARRAY[1000, 1000, 1000], 3, share, 0.01, share - 0.02, share + 0.02, share - 0.01,
        share + 0.01
    FROM jobs, unnest(%(metrics)s::text[]) AS name,
        LATERAL (SELECT 0.05 + 0.9 * ('x' || left(md5(id::text || name), 6))::bit(24)::int
            / 16777216.0) AS given (share)
    WHERE state = 'succeeded'""",
    ),
    (
        "attention_maps",
        """
    INSERT INTO attention_maps (job_id, attempt, replicate, seed, source, artifact_sha256,
        shape, axes, learned_positions, target_start, samples)
    SELECT id, 1, 0, 0, 'adapted', md5(id::text), ARRAY[1, 4, 4, 8, 10],
        ARRAY['sample', 'layer', 'head', 'query', 'key'], 2, 4, '{}'::jsonb
    FROM (SELECT id, row_number() OVER (ORDER BY created_at) AS n FROM jobs) AS jobs
    WHERE n %% %(mapped)s = 1""",
    ),
    (
        "attention_summaries",
        """
    INSERT INTO attention_summaries (map_id, layer, head, entropy, learned_mass, divergence,
        relative_deviation)
    SELECT id, layer, head, 1 + random(), random(), 0.69 * random() ^ 3, random()
    FROM attention_maps, generate_series(0, %(layers)s - 1) AS layer,
        generate_series(0, %(heads)s - 1) AS head""",
    ),
)


@dataclass(frozen=True, slots=True)
class Filled:
    """How much there is, and how long it took to make."""

    jobs: int
    points: int
    heads: int


def fill(address: str, owner: str) -> Filled:
    """Write the rows; `owner` is the name of a user, whose jobs they are."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET statement_timeout = 0")
        values = _values(owner)
        for name, statement in STATEMENTS:
            print(f"  filling {name}", flush=True)
            connection.execute(statement.encode(), values)
            # Foreign keys of rows that are made to fit need not be looked up one by one. A trigger
            # of jobs remembers the numbers of their specs.
            connection.execute("SET session_replication_role = replica")
        connection.execute("VACUUM ANALYZE")
    heads = JOBS // MAPPED * LAYERS * HEADS
    return Filled(jobs=JOBS, points=JOBS * len(CURVES) * POINTS, heads=heads)


def _values(owner: str) -> dict[str, Any]:
    """What the statements are given, by name."""
    spec, resolved = _documents()
    return {
        "jobs": JOBS,
        "owner": owner,
        "spec": json.dumps(spec),
        "resolved": json.dumps(resolved),
        "tasks": list(TASKS),
        "methods": list(METHODS),
        "seeds": SEEDS,
        "lengths": STEPS,
        "curves": sorted(CURVES),
        "points": POINTS,
        "metrics": list(METRICS),
        "mapped": MAPPED,
        "layers": LAYERS,
        "heads": HEADS,
    }


def _documents() -> tuple[dict[str, Any], dict[str, Any]]:
    """A spec as it is asked for and as it runs, which all rows share."""
    adapter: TypeAdapter[AnySpec] = TypeAdapter(JobSpec)
    base, adapt = adapter.validate_python(BASE), adapter.validate_python(TINY)
    assert isinstance(base, PretrainSpec)
    assert isinstance(adapt, AdaptSpec)
    made = resolve(base, None)
    facts = BaseModelFacts(
        name=base.name,
        digest=spec_digest(made),
        family=made.family,
        task=made.task,
        replicates=len(made.seeds),
    )
    resolved = resolve(adapt, facts)
    return TINY, write_resolved(resolved).model_dump(mode="json")
