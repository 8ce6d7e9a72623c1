"""Every table; what people filter and sort by is a column, the whole spec stands beside it."""

import uuid
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    DateTime,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    Text,
    UniqueConstraint,
    false,
    func,
    text,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from adaptlab_db.job_states import ATTEMPT_OUTCOMES, JOB_STATES
from adaptlab_db.job_states import TERMINAL_STATES as TERMINAL_STATES

ARTIFACT_STATES = ("ready", "quarantined", "collected", "uploading")
STUDY_ROLES = ("method", "reference", "base_model", "check")
PROJECT_ROLES = ("reader", "submitter", "operator", "admin")

Json = dict[str, Any]  # a stored JSON document; typed again where it is read


def _one_of(column: str, values: tuple[str, ...]) -> str:
    return f"{column} IN ({', '.join(repr(value) for value in values)})"


class Table(DeclarativeBase):
    """The base of all tables, with named constraints so that migrations can refer to them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(column_0_N_label)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy's own protocol
        datetime: DateTime(timezone=True),
        float: Double,
        str: Text,
        Json: JSONB,
    }


class Project(Table):
    """What belongs together and is seen by the same people."""

    __tablename__ = "projects"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class User(Table):
    """Somebody who owns jobs and tokens; `is_admin` of the whole server, not of one project.

    The last two are quotas that hold in the place of the server's; the first is by queue.
    """

    __tablename__ = "users"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    is_admin: Mapped[bool] = mapped_column(Boolean, server_default=false())
    deactivated_at: Mapped[datetime | None]
    max_queue_hours: Mapped[Json | None]
    max_stored_bytes: Mapped[int | None] = mapped_column(BigInteger)


class UsageCount(Table):
    """What somebody had used and stored when it was last counted, which is good until a moment.

    `hours` are lists of a queue, a day and the seconds of the attempts that ended on it.
    """

    __tablename__ = "usage_counts"

    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), primary_key=True)
    counted_at: Mapped[datetime]
    counted_until: Mapped[datetime]
    hours: Mapped[list[Any]] = mapped_column(JSONB)
    job_bytes: Mapped[int] = mapped_column(BigInteger)


class Membership(Table):
    """What somebody may do in a project."""

    __tablename__ = "memberships"
    __table_args__ = (CheckConstraint(_one_of("role", PROJECT_ROLES), name="role"),)

    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), primary_key=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"), primary_key=True, index=True)
    role: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class AuditEntry(Table):
    """Who did what from where; a trigger refuses every change to what has been written.

    `actor` is None where nobody could be told, and `object` is what the address or the answer
    names.
    """

    __tablename__ = "audit_entries"
    __table_args__ = (
        Index("ix_audit_entries_actor_id", "actor", "id"),
        Index("ix_audit_entries_action_id", "action", "id"),
        Index("ix_audit_entries_object_id", "object", "id"),
        Index("ix_audit_entries_at_id", "at", "id"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    actor_id: Mapped[int | None] = mapped_column(ForeignKey("users.id"))
    actor: Mapped[str | None]
    token_id: Mapped[int | None] = mapped_column(ForeignKey("tokens.id"))
    address: Mapped[str | None]
    action: Mapped[str]
    object: Mapped[str | None]
    status: Mapped[int]
    request_id: Mapped[uuid.UUID]
    details: Mapped[Json | None]


class Token(Table):
    """A bearer token; only its SHA-256 is kept. With a project it opens that one only.

    With a job it opens the leases of that one, in the job's project, until the job is over.
    """

    __tablename__ = "tokens"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    name: Mapped[str]
    digest: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    scopes: Mapped[list[str]] = mapped_column(ARRAY(Text))
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    project_id: Mapped[int | None] = mapped_column(ForeignKey("projects.id"))
    job_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))


class BrowserSession(Table):
    """A signed-in browser; the cookie's value is kept as its SHA-256 only."""

    __tablename__ = "browser_sessions"

    digest: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id", ondelete="CASCADE"))
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    expires_at: Mapped[datetime]


class Artifact(Table):
    """A sequence of bytes, named by its SHA-256 (hexadecimal).

    `key` names the bytes in a store outside the database. Of what is not `ready`, `reason` says
    why; of what is `collected`, only this row is left. What is `uploading` has the name of its
    upload, no digest. `checked_at` is when the bytes were last read and found to have the digest.
    """

    __tablename__ = "artifacts"
    __table_args__ = (
        CheckConstraint(_one_of("state", ARTIFACT_STATES), name="state"),
        CheckConstraint("(state = 'ready') = (reason IS NULL)", name="reason"),
        CheckConstraint("(store = 'postgres') = (key IS NULL)", name="key"),
        Index("ix_artifacts_key", "store", "key", unique=True,
              postgresql_where=text("key IS NOT NULL")),
    )  # fmt: skip

    sha256: Mapped[str] = mapped_column(primary_key=True)
    size: Mapped[int] = mapped_column(BigInteger)
    store: Mapped[str] = mapped_column(server_default="postgres")
    key: Mapped[str | None]
    state: Mapped[str] = mapped_column(server_default="ready")
    reason: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    last_referenced_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    checked_at: Mapped[datetime | None]


class ArtifactChunk(Table):
    """One piece of an artifact, of 1 MiB but for the last."""

    __tablename__ = "artifact_chunks"

    # Deferred, because a stream's digest is known only when its last chunk has been written.
    sha256: Mapped[str] = mapped_column(
        ForeignKey("artifacts.sha256", ondelete="CASCADE", deferrable=True, initially="DEFERRED"),
        primary_key=True,
    )
    number: Mapped[int] = mapped_column(primary_key=True)
    content: Mapped[bytes] = mapped_column(LargeBinary)


class Upload(Table):
    """Bytes that arrive in chunks; `size_bytes` and `sha256` are what their owner announced.

    The artifact is one of state `uploading` until the whole was found to have that digest, and
    then the one that has it.
    """

    __tablename__ = "uploads"
    __table_args__ = (
        CheckConstraint("size_bytes > 0", name="size_bytes"),
        Index("ix_uploads_content", "owner_id", "sha256", "size_bytes", unique=True),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    owner_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str]
    artifact_sha256: Mapped[str] = mapped_column(ForeignKey("artifacts.sha256"), index=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    expires_at: Mapped[datetime] = mapped_column(index=True)


class UploadChunk(Table):
    """A chunk of an upload that is there whole; its rows of 1 MiB lie among the artifact's."""

    __tablename__ = "upload_chunks"

    upload_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("uploads.id", ondelete="CASCADE"), primary_key=True
    )
    number: Mapped[int] = mapped_column(primary_key=True)
    size_bytes: Mapped[int]
    sha256: Mapped[str]


class Job(Table):
    """One job: its spec, its state and its lease. `attempt` is the fencing token.

    `furthest_step` is the furthest that an earlier attempt got, `error_fingerprint` what the last
    failed attempt failed with, and `retry_of` the job that this one was made from anew.
    """

    __tablename__ = "jobs"
    __table_args__ = (
        CheckConstraint(_one_of("state", JOB_STATES), name="state"),
        CheckConstraint(
            "(state = 'running') = (lease_expires_at IS NOT NULL)", name="running_has_lease"
        ),
        Index("ix_jobs_lanes", "queue", "priority", "owner_id", "created_at", "id",
              postgresql_where=text("state = 'queued'")),
        # None of the lease: what a heartbeat changes stands in no index, so that it touches none.
        Index("ix_jobs_running_owner", "owner_id", postgresql_where=text("state = 'running'")),
        Index("ix_jobs_newest", text("created_at DESC"), text("id DESC")),
        Index("ix_jobs_project_newest", "project_id", text("created_at DESC"), text("id DESC")),
        Index("ix_jobs_owner_finished", "owner_id", "finished_at"),
        Index("ix_jobs_finished", "finished_at", "id"),
        Index("ix_jobs_digest", "spec_digest"),
        Index("ix_jobs_labels", "labels", postgresql_using="gin"),
        Index("ix_jobs_spec", "resolved_spec", postgresql_using="gin",
              postgresql_ops={"resolved_spec": "jsonb_path_ops"}),
        # What results are grouped by, so that groups are read without the specs.
        Index("ix_jobs_results", "project_id", "id", postgresql_where=text("state = 'succeeded'"),
              postgresql_include=["kind", "base_model", "family", "task", "method",
                                  "budget_requested", "trainable_parameters"]),
        Index("ix_jobs_like", "kind", "task", "method", text("created_at DESC"), text("id DESC")),
        Index("ix_jobs_trainable", "trainable_parameters", "id"),
        Index("ix_jobs_retry_of", "retry_of", unique=True),
    )  # fmt: skip

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    owner_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"))
    state: Mapped[str] = mapped_column(index=True)
    reason: Mapped[str | None]
    error: Mapped[str | None]
    kind: Mapped[str]
    base_model: Mapped[str | None] = mapped_column(index=True)
    family: Mapped[str]
    task: Mapped[str | None] = mapped_column(index=True)
    method: Mapped[str | None] = mapped_column(index=True)
    budget_requested: Mapped[int | None] = mapped_column(BigInteger)
    trainable_parameters: Mapped[int] = mapped_column(BigInteger)
    spec: Mapped[Json]
    resolved_spec: Mapped[Json]
    spec_digest: Mapped[str]
    labels: Mapped[Json]
    queue: Mapped[str]
    priority: Mapped[int]
    max_seconds: Mapped[int]
    attempt: Mapped[int] = mapped_column(server_default="0")
    attempts_max: Mapped[int] = mapped_column(server_default="3")
    worker_id: Mapped[uuid.UUID | None]
    lease_expires_at: Mapped[datetime | None]
    run_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    cancel_requested_at: Mapped[datetime | None]
    pause_requested_at: Mapped[datetime | None]
    step: Mapped[int] = mapped_column(server_default="0")
    total_steps: Mapped[int]
    event_sequence: Mapped[int] = mapped_column(server_default="0")
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    heartbeat_at: Mapped[datetime | None]
    furthest_step: Mapped[int] = mapped_column(server_default="0")
    error_fingerprint: Mapped[str | None]
    retry_of: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("jobs.id"))
    claim_id: Mapped[uuid.UUID | None]


class SpecNumber(Table):
    """A number that some job has at this path of its resolved spec; lists are left out.

    Says which numbers are in a range, so that the jobs that have them can be looked up. A trigger
    adds those of new jobs. A number stays when its jobs go, and may be there more than once: with a
    unique index, jobs created at the same time would wait for each other.
    """

    __tablename__ = "spec_numbers"
    __table_args__ = (Index("ix_spec_numbers_path_number", "path", "number"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    path: Mapped[str]
    number: Mapped[Decimal] = mapped_column(Numeric)


class BaseModel(Table):
    """A named base model; its weights are the checkpoints of the job that made it."""

    __tablename__ = "base_models"

    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    job_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("jobs.id"), unique=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class Dataset(Table):
    """Words in three languages that were uploaded; the artifact is their canonical content.

    `lengths` counts triples by the characters of their longest form, and `sources` says which
    packages they were taken from.
    """

    __tablename__ = "datasets"

    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    owner_id: Mapped[int] = mapped_column(ForeignKey("users.id"), index=True)
    artifact_sha256: Mapped[str] = mapped_column(ForeignKey("artifacts.sha256"), index=True)
    triples: Mapped[int]
    characters: Mapped[str]
    lengths: Mapped[list[int]] = mapped_column(ARRAY(Integer))
    sources: Mapped[list[Any]] = mapped_column(JSONB)
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class Study(Table):
    """One study: what was asked for, and what could not be met; its state follows from its jobs.

    `recipe` is the name and the preset of the recipe that the spec was made from, if any.
    """

    __tablename__ = "studies"
    __table_args__ = (
        Index("ix_studies_newest", text("created_at DESC"), text("id DESC")),
        UniqueConstraint("project_id", "name"),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    owner_id: Mapped[int] = mapped_column(ForeignKey("users.id"), index=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"))
    name: Mapped[str]
    spec: Mapped[Json]
    skipped: Mapped[list[Any]] = mapped_column(JSONB)
    recipe: Mapped[Json | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    extended_at: Mapped[datetime | None]
    cancelled_at: Mapped[datetime | None]


class StudyJob(Table):
    """A job in one cell of a study; a job of `base_model` role only has that coordinate.

    A job of `check` role has the label of a theory check and, if it measures adaptations, the
    method that made them and the cell if they are of one. `budget` is the limit in trainable
    parameters that the row of the comparison has; a method of fixed size has one job in many such
    rows. `reused` marks a job that was there before.
    """

    __tablename__ = "study_jobs"
    __table_args__ = (
        CheckConstraint(_one_of("role", STUDY_ROLES), name="role"),
        CheckConstraint(
            "CASE role WHEN 'check' THEN num_nonnulls(task, budget) IN (0, 2) "
            "WHEN 'base_model' THEN num_nonnulls(task, method, budget) = 0 "
            "ELSE num_nonnulls(task, method, budget) = 3 END",
            name="cell",
        ),
        CheckConstraint("role = 'check' OR base_model IS NOT NULL", name="base_model"),
        CheckConstraint("(role = 'check') = (theory_check IS NOT NULL)", name="theory_check"),
        Index("ix_study_jobs_cell", "study_id", "base_model", "task", "method", "budget", "job_id",
              unique=True, postgresql_nulls_not_distinct=True),
    )  # fmt: skip

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    study_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("studies.id", ondelete="CASCADE"))
    job_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("jobs.id"), index=True)
    base_model: Mapped[str | None]
    task: Mapped[str | None]
    method: Mapped[str | None]
    budget: Mapped[int | None] = mapped_column(BigInteger)
    role: Mapped[str]
    theory_check: Mapped[str | None]
    over_budget: Mapped[bool] = mapped_column(Boolean)
    reused: Mapped[bool] = mapped_column(Boolean)


class ComparisonResult(Table):
    """A table of a comparison as it was computed, named by the digest of its inputs.

    `content` is its JSON. All of it can be computed again; what was not used for long is deleted.
    """

    __tablename__ = "comparison_results"

    digest: Mapped[str] = mapped_column(primary_key=True)
    content: Mapped[str]
    size_bytes: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    used_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp(), index=True)


class IdempotencyKey(Table):
    """An answer already given to a request with this key: the job or the study it made."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (CheckConstraint("num_nonnulls(job_id, study_id) = 1", name="one_answer"),)

    owner_id: Mapped[int] = mapped_column(ForeignKey("users.id"), primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    request_digest: Mapped[str]
    job_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("jobs.id"))
    study_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("studies.id"))
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class JobEvent(Table):
    """Something that happened to a job; never changed, numbered from 1 within the job."""

    __tablename__ = "job_events"

    job_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True
    )
    sequence: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    type: Mapped[str]
    attempt: Mapped[int | None]
    data: Mapped[Json]


class Worker(Table):
    """A worker process that claims jobs; `unschedulable` says why it takes none now.

    `token_id` is the token with which it comes by the API; null for one beside the database.
    """

    __tablename__ = "workers"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    host: Mapped[str]
    process_id: Mapped[int]
    queues: Mapped[list[str]] = mapped_column(ARRAY(Text))
    started_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    heartbeat_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    stopped_at: Mapped[datetime | None]
    unschedulable: Mapped[str | None]
    token_id: Mapped[int | None] = mapped_column(ForeignKey("tokens.id"))


class Attempt(Table):
    """One lease on a job, from claim to end; never overwritten."""

    __tablename__ = "attempts"
    __table_args__ = (
        CheckConstraint(_one_of("outcome", ATTEMPT_OUTCOMES), name="outcome"),
        CheckConstraint("(ended_at IS NULL) = (outcome IS NULL)", name="ended_has_outcome"),
    )

    job_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True
    )
    attempt: Mapped[int] = mapped_column(primary_key=True)
    worker_id: Mapped[uuid.UUID]
    started_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    first_step_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    outcome: Mapped[str | None]
    reason: Mapped[str | None]
    error: Mapped[str | None]
    environment: Mapped[Json | None]
    usage: Mapped[Json | None]
    claim_id: Mapped[uuid.UUID | None] = mapped_column(index=True)


class Replicate(Table):
    """One seed and trial of an attempt."""

    __tablename__ = "replicates"
    __table_args__ = (
        ForeignKeyConstraint(
            ["job_id", "attempt"], ["attempts.job_id", "attempts.attempt"], ondelete="CASCADE"
        ),
    )

    job_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    replicate: Mapped[int] = mapped_column(primary_key=True)
    seed: Mapped[int] = mapped_column(BigInteger)
    trial: Mapped[int]
    learning_rate: Mapped[float]
    weight_decay: Mapped[float]
    initial_scale: Mapped[float]
    status: Mapped[str]
    selected: Mapped[bool] = mapped_column(Boolean)
    final_loss: Mapped[float | None]
    validation_accuracy: Mapped[float | None]
    steps: Mapped[int]


class MetricPoint(Table):
    """One value of one curve; NULL where the value was not finite.

    Belongs to an attempt, by triggers instead of a foreign key, which would look it up for every
    point: they do so once a statement, and remove the points of an attempt with it.
    """

    __tablename__ = "metric_points"

    job_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    replicate: Mapped[int] = mapped_column(primary_key=True)
    step: Mapped[int] = mapped_column(primary_key=True)
    value: Mapped[float | None]


class Evaluation(Table):
    """The score of one replicate on one task and split; the base's own where not `attached`."""

    __tablename__ = "evaluations"
    __table_args__ = (
        ForeignKeyConstraint(
            ["job_id", "attempt"], ["attempts.job_id", "attempts.attempt"], ondelete="CASCADE"
        ),
        UniqueConstraint("job_id", "attempt", "replicate", "split", "attached", "task"),
        CheckConstraint("total > 0 AND correct BETWEEN 0 AND total", name="score"),
        Index("ix_evaluations_score", "task_name", text("(correct::float8 / total) DESC")),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    job_id: Mapped[uuid.UUID]
    attempt: Mapped[int]
    replicate: Mapped[int]
    seed: Mapped[int] = mapped_column(BigInteger)
    task_name: Mapped[str]
    task: Mapped[Json]
    split: Mapped[str]
    attached: Mapped[bool] = mapped_column(Boolean, server_default=true())
    correct: Mapped[int]
    total: Mapped[int]


class JobMetric(Table):
    """One figure of a job that has succeeded, over its seeds, each by the trial chosen for it.

    `seeds` and `values` belong together, and `items` says of how many items a value is a share.
    `low` and `high` are the limits of the 95 % interval of the mean. All of it follows from what
    the latest attempt measured, and is kept so that jobs can be looked for by it.
    """

    __tablename__ = "job_metrics"
    __table_args__ = (
        CheckConstraint("cardinality(seeds) = cardinality(values)", name="seeds"),
        Index("ix_job_metrics_mean", "name", "mean", "job_id"),
    )

    job_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True
    )
    name: Mapped[str] = mapped_column(primary_key=True)
    seeds: Mapped[list[int]] = mapped_column(ARRAY(BigInteger))
    values: Mapped[list[float]] = mapped_column(ARRAY(Double))
    items: Mapped[list[int] | None] = mapped_column(ARRAY(Integer))
    n: Mapped[int]
    mean: Mapped[float]
    sd: Mapped[float | None]
    low: Mapped[float | None]
    high: Mapped[float | None]
    min: Mapped[float]
    max: Mapped[float]


class ItemOutcome(Table):
    """Which items of an evaluation were right: packed bits, in item order."""

    __tablename__ = "item_outcomes"

    evaluation_id: Mapped[int] = mapped_column(
        ForeignKey("evaluations.id", ondelete="CASCADE"), primary_key=True
    )
    bits: Mapped[bytes] = mapped_column(LargeBinary)


class AttentionMap(Table):
    """The attention patterns of one replicate; the array is an artifact in `.npy` format."""

    __tablename__ = "attention_maps"
    __table_args__ = (
        ForeignKeyConstraint(
            ["job_id", "attempt"], ["attempts.job_id", "attempts.attempt"], ondelete="CASCADE"
        ),
        UniqueConstraint("job_id", "attempt", "replicate", "source"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    job_id: Mapped[uuid.UUID]
    attempt: Mapped[int]
    replicate: Mapped[int]
    seed: Mapped[int] = mapped_column(BigInteger)
    source: Mapped[str]
    artifact_sha256: Mapped[str] = mapped_column(ForeignKey("artifacts.sha256"), index=True)
    shape: Mapped[list[int]] = mapped_column(ARRAY(Integer))
    axes: Mapped[list[str]] = mapped_column(ARRAY(Text))
    learned_positions: Mapped[int]
    target_start: Mapped[int]
    samples: Mapped[Json]


class AttentionSummary(Table):
    """The figures of one head of one layer of an attention map."""

    __tablename__ = "attention_summaries"
    __table_args__ = (
        Index("ix_attention_summaries_deviation", "layer", "head", "relative_deviation"),
        Index("ix_attention_summaries_moved", "relative_deviation", "map_id", "layer", "head"),
        Index("ix_attention_summaries_entropy", "entropy", "map_id", "layer", "head"),
        Index("ix_attention_summaries_layer", "layer", "divergence", "map_id", "head"),
        Index("ix_attention_summaries_divergence", "divergence", "map_id", "layer", "head"),
        Index("ix_attention_summaries_learned_mass", "learned_mass", "map_id", "layer", "head"),
    )

    map_id: Mapped[int] = mapped_column(
        ForeignKey("attention_maps.id", ondelete="CASCADE"), primary_key=True
    )
    layer: Mapped[int] = mapped_column(primary_key=True)
    head: Mapped[int] = mapped_column(primary_key=True)
    entropy: Mapped[float]
    learned_mass: Mapped[float]
    divergence: Mapped[float]
    relative_deviation: Mapped[float]


class Checkpoint(Table):
    """The trained tensors of one selected replicate."""

    __tablename__ = "checkpoints"
    __table_args__ = (
        ForeignKeyConstraint(
            ["job_id", "attempt"], ["attempts.job_id", "attempts.attempt"], ondelete="CASCADE"
        ),
        UniqueConstraint("job_id", "attempt", "replicate", "kind"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    job_id: Mapped[uuid.UUID]
    attempt: Mapped[int]
    replicate: Mapped[int]
    seed: Mapped[int] = mapped_column(BigInteger)
    kind: Mapped[str]
    artifact_sha256: Mapped[str] = mapped_column(ForeignKey("artifacts.sha256"), index=True)
    parameters: Mapped[int] = mapped_column(BigInteger)
    tensors: Mapped[Json]
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class TheoryReport(Table):
    """What one theory check says; `place` is the order in which they were measured."""

    __tablename__ = "theory_reports"
    __table_args__ = (
        ForeignKeyConstraint(
            ["job_id", "attempt"], ["attempts.job_id", "attempts.attempt"], ondelete="CASCADE"
        ),
    )

    job_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    place: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    claim: Mapped[str]
    measured: Mapped[float]
    tolerance: Mapped[float]
    bound: Mapped[str]
    verdict: Mapped[str]
    details: Mapped[Json]


class LeaseArtifact(Table):
    """Content that was sent under a lease of a job, whether or not a result names it yet.

    Reports name only what was sent for their job, and what was sent counts as stored. It does not
    keep the artifact: content that nothing else names goes, and this row with it.
    """

    __tablename__ = "lease_artifacts"

    job_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True
    )
    sha256: Mapped[str] = mapped_column(
        ForeignKey("artifacts.sha256", ondelete="CASCADE"), primary_key=True, index=True
    )
    sent_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class TrainingState(Table):
    """The last saved state of a training that has not ended; one a job, the newest."""

    __tablename__ = "training_states"
    __table_args__ = (
        ForeignKeyConstraint(
            ["job_id", "attempt"], ["attempts.job_id", "attempts.attempt"], ondelete="CASCADE"
        ),
    )

    job_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    attempt: Mapped[int]
    step: Mapped[int]
    artifact_sha256: Mapped[str] = mapped_column(ForeignKey("artifacts.sha256"), index=True)
    saved_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
