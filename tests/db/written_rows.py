"""Rows that are written past the services: a job in every state."""

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from adaptlab_db.job_states import JOB_STATES, TERMINAL_STATES

NOW = datetime(2026, 11, 1, tzinfo=UTC)
TASK = {"name": "sort_descending", "length": 10}
ARTIFACT = hashlib.sha256(b"content").hexdigest()
WORKER = uuid.UUID(int=9)
USER = 1
TRAINING = {
    "steps": 50,
    "trials": [
        {"learning_rate": 0.001, "weight_decay": 0.1, "initial_scale": 1.0},
        {"learning_rate": 0.01, "weight_decay": 0.1, "initial_scale": 1.0},
    ],
}
UNTRIED = ("waiting", "queued")
Row = Mapping[str, object]


def job_id(state: str) -> uuid.UUID:
    """The job in that state."""
    return uuid.uuid5(uuid.NAMESPACE_URL, state)


def write_rows(connection: psycopg.Connection) -> None:
    """Write rows into the tables of jobs, results and studies."""
    _write(connection, "users", [{"name": "someone"}])
    _write(connection, "tokens", [_token()])
    _write(connection, "memberships", [{"user_id": USER, "project_id": 1, "role": "operator"}])
    _write(connection, "artifacts", [{"sha256": ARTIFACT, "size": 7}])
    _write(connection, "artifact_chunks", [{"sha256": ARTIFACT, "number": 0, "content": b"c"}])
    _write(connection, "workers", [_worker()])
    _write(connection, "jobs", [_job(state) for state in JOB_STATES])
    named = {"project_id": 1, "name": "base"}
    _write(connection, "base_models", [named | {"job_id": job_id("succeeded")}])
    attempted = {state: job_id(state) for state in JOB_STATES if state not in UNTRIED}
    _write(connection, "attempts", [_attempt(state, job) for state, job in attempted.items()])
    for state, job in attempted.items():
        _write_measured(connection, state, job)
    _write(connection, "studies", [_study()])
    _write(connection, "study_jobs", [_study_job(state) for state in JOB_STATES])
    key = {"owner_id": USER, "key": "key", "request_digest": "d", "job_id": job_id("failed")}
    _write(connection, "idempotency_keys", [key])


def write_records(connection: psycopg.Connection, **changes: object) -> None:
    """Write a dataset of records."""
    field = {"name": "text", "longest": 1, "empty": 0}
    columns = {
        "kind": "records",
        "records": 2,
        "copies": 0,
        "fields": [field],
        "field_values": [None],
        "buckets": "{{1,1}}",
    }
    _write(connection, "datasets", [_dataset("records") | columns | changes])


def _dataset(name: str) -> dict[str, object]:
    owned = {"project_id": 1, "owner_id": USER, "artifact_sha256": ARTIFACT}
    return {"name": name, "sources": [], **owned}


def _write(connection: psycopg.Connection, table: str, rows: Sequence[Row]) -> None:
    for row in rows:
        connection.execute(
            sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
                sql.Identifier(table),
                sql.SQL(", ").join(map(sql.Identifier, row)),
                sql.SQL(", ").join(sql.Placeholder() * len(row)),
            ),
            [Jsonb(v) if isinstance(v, dict | list) else v for v in row.values()],
        )


def _token() -> Row:
    scopes = "{read,submit}"
    return {"user_id": USER, "name": "laptop", "digest": b"digest", "scopes": scopes}


def _worker() -> Row:
    return {"id": WORKER, "host": "node", "process_id": 1, "queues": "{cpu}"}


def _job(state: str) -> Row:
    has_ended = state in TERMINAL_STATES
    resolved = {"spec_version": 2, "task": TASK, "seeds": [5], "training": TRAINING}
    return {
        "id": job_id(state),
        "owner_id": USER,
        "project_id": 1,
        "state": state,
        "kind": "adapt",
        "base_model": "base",
        "family": "tiny",
        "task": TASK["name"],
        "method": "lora",
        "trainable_parameters": 384,
        "spec": {"kind": "adapt"},
        "resolved_spec": resolved,
        "spec_digest": f"digest of {state}",
        "labels": {"state": state},
        "queue": "cpu",
        "priority": 0,
        "max_seconds": 60,
        "attempt": int(state not in UNTRIED),
        "worker_id": WORKER if state == "running" else None,
        "lease_expires_at": NOW + timedelta(minutes=1) if state == "running" else None,
        "total_steps": 50,
        "step": 50 if has_ended else 10,
        "created_at": NOW,
        "finished_at": NOW if has_ended else None,
    }


def _attempt(state: str, job: uuid.UUID) -> Row:
    return {
        "job_id": job,
        "attempt": 1,
        "worker_id": WORKER,
        "started_at": NOW,
        "ended_at": None if state == "running" else NOW,
        "outcome": None if state == "running" else state,
    }


def _write_measured(connection: psycopg.Connection, state: str, job: uuid.UUID) -> None:
    place = {"job_id": job, "attempt": 1, "replicate": 0}
    of_seed = place | {"seed": 5}
    _write(connection, "replicates", [of_seed | _ended()])
    points = [{"name": "train_loss", "step": step, "value": 1 / step} for step in (1, 50)]
    _write(connection, "metric_points", [place | point for point in points])
    evaluation = of_seed | {"task_name": TASK["name"], "task": TASK, "split": "test"}
    _write(connection, "evaluations", [evaluation | {"correct": 8, "total": 10}])
    _write_outcomes(connection, job)
    figures = {"shape": "{1}", "axes": "{a}", "learned_positions": 0, "target_start": 0}
    captured = of_seed | figures | {"artifact_sha256": ARTIFACT, "samples": {}}
    _write(connection, "attention_maps", [captured | {"source": "adapted"}])
    kept = of_seed | {"kind": "adapter", "artifact_sha256": ARTIFACT}
    _write(connection, "checkpoints", [kept | {"parameters": 384, "tensors": []}])
    event = {"job_id": job, "sequence": 1, "type": "state", "data": {"state": state}}
    _write(connection, "job_events", [event])


def _write_outcomes(connection: psycopg.Connection, job: uuid.UUID) -> None:
    query = """
        INSERT INTO item_outcomes SELECT id, 'bits' FROM evaluations
        WHERE job_id = %s"""
    connection.execute(query, [job])


def _ended() -> dict[str, object]:
    return {
        "trial": 0,
        "learning_rate": 0.001,
        "weight_decay": 0.1,
        "initial_scale": 1.0,
        "status": "ok",
        "selected": True,
        "final_loss": 0.02,
        "steps": 50,
    }


def _study() -> Row:
    named = {"owner_id": USER, "project_id": 1, "name": "study"}
    return named | {"id": job_id("study"), "spec": {}, "skipped": []}


def _study_job(state: str) -> Row:
    return {
        "study_id": job_id("study"),
        "job_id": job_id(state),
        "base_model": "base",
        "task": json.dumps(TASK),
        "method": f"lora of {state}",
        "budget": 384,
        "role": "method",
        "over_budget": False,
        "reused": False,
    }
