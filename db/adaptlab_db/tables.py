"""All tables of the database.

Values that users filter and sort by are columns, next to the complete spec.
"""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, get_args

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
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

from adaptlab.specs.spec import Kind
from adaptlab_db.job_states import ATTEMPT_OUTCOMES, JOB_STATES

ARTIFACT_STATES = ("ready", "quarantined", "collected", "uploading")
STUDY_ROLES = ("method", "reference", "base_model", "check", "sweep", "control")
PASS_KINDS = ("sweep", "wider", "evidence")
PASS_STATES = ("open", "done", "failed", "dropped")
PROJECT_ROLES = ("reader", "submitter", "operator", "admin")
WEBHOOK_FORMATS = ("json", "slack")
TRACKER_KINDS = ("mlflow", "trackio")
DELIVERY_STATES = ("pending", "delivered", "failed")
ACTIVE_FETCH_STATES = ("pending", "running")
FETCH_STATES = (*ACTIVE_FETCH_STATES, "succeeded", "failed", "cancelled")
CLAIM_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 21_600, 86_400)
"""Seconds between the buckets of `ClaimCount`, as in the trigger that counts."""

Json = dict[str, Any]  # a stored JSON document; typed again where it is read


def _one_of(column: str, values: tuple[str, ...]) -> str:
    return f"{column} IN ({', '.join(repr(value) for value in values)})"


class Table(DeclarativeBase):
    """The base of all tables.

    Constraints are named so that migrations can refer to them.
    """

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
    """A group of rows that the same users can see.

    It has jobs with their results, studies, datasets and base models.
    """

    __tablename__ = "projects"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class User(Table):
    """A user, who owns jobs and tokens.

    `is_admin` applies to the server, not to one project. `max_queue_hours` (by queue) and
    `max_stored_bytes` replace the server's quotas. `usual_project_id` is the project of requests
    that name none.
    """

    __tablename__ = "users"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    is_admin: Mapped[bool] = mapped_column(Boolean, server_default=false())
    deactivated_at: Mapped[datetime | None]
    max_queue_hours: Mapped[Json | None]
    max_stored_bytes: Mapped[int | None] = mapped_column(BigInteger)
    usual_project_id: Mapped[int | None] = mapped_column(ForeignKey("projects.id"))


class UsageCount(Table):
    """The last count of a user's usage and stored bytes.

    It is valid until `counted_until`. `hours` are lists of a queue, a day and the seconds of the
    attempts that ended on that day.
    """

    __tablename__ = "usage_counts"

    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), primary_key=True)
    counted_at: Mapped[datetime]
    counted_until: Mapped[datetime]
    hours: Mapped[list[Any]] = mapped_column(JSONB)
    job_bytes: Mapped[int] = mapped_column(BigInteger)


class Membership(Table):
    """The role of a user in a project.

    Without `accepted_at` it is an invitation, which gives no permission.
    """

    __tablename__ = "memberships"
    __table_args__ = (CheckConstraint(_one_of("role", PROJECT_ROLES), name="role"),)

    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), primary_key=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"), primary_key=True, index=True)
    role: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    accepted_at: Mapped[datetime | None] = mapped_column(server_default=func.clock_timestamp())


class AuditEntry(Table):
    """An entry of the audit log; a trigger rejects every change to it.

    `actor` is None if the caller is unknown, and `object` is what the address or the answer names.
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
    request_id: Mapped[str]
    details: Mapped[Json | None]


class Token(Table):
    """A bearer token, of which only the SHA-256 is stored.

    With a project, it gives access to that project only. With a job, it gives access to the job's
    leases until the job has ended.
    """

    __tablename__ = "tokens"
    __table_args__ = (
        # The deletion of a job looks for its tokens, and most tokens have no job.
        Index("ix_tokens_job_id", "job_id", postgresql_where=text("job_id IS NOT NULL")),
    )

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
    """A signed-in browser; of the cookie's value, only the SHA-256 is stored."""

    __tablename__ = "browser_sessions"

    digest: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id", ondelete="CASCADE"))
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    expires_at: Mapped[datetime]


class Artifact(Table):
    """A sequence of bytes, named by its SHA-256 (hexadecimal).

    `key` names the bytes in a store outside the database. An artifact that is not `ready` has a
    `reason`; of one that is `collected`, only this row is left. One that is `uploading` has the
    name of its upload instead of a digest. `checked_at` is the time of the last successful scrub.
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
    """One piece of an artifact, of 1 MiB except the last."""

    __tablename__ = "artifact_chunks"

    # Deferred, because the digest of a stream is known only after its last chunk.
    sha256: Mapped[str] = mapped_column(
        ForeignKey("artifacts.sha256", ondelete="CASCADE", deferrable=True, initially="DEFERRED"),
        primary_key=True,
    )
    number: Mapped[int] = mapped_column(primary_key=True)
    content: Mapped[bytes] = mapped_column(LargeBinary)


class Upload(Table):
    """Bytes that arrive in chunks.

    Their owner announced `size_bytes` and `sha256`. The artifact has the state `uploading` until
    the content is complete and has that digest; then it is the one with the digest. Those `of_hub`
    are written by the server, which fetches for the owner.
    """

    __tablename__ = "uploads"
    __table_args__ = (
        CheckConstraint("size_bytes > 0", name="size_bytes"),
        Index("ix_uploads_content", "owner_id", "sha256", "size_bytes", "of_hub", unique=True),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    owner_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str]
    artifact_sha256: Mapped[str] = mapped_column(ForeignKey("artifacts.sha256"), index=True)
    of_hub: Mapped[bool] = mapped_column(Boolean, server_default=false())
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    expires_at: Mapped[datetime] = mapped_column(index=True)


class UploadChunk(Table):
    """A chunk of an upload that has arrived.

    Its rows of 1 MiB are among the artifact's.
    """

    __tablename__ = "upload_chunks"

    upload_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("uploads.id", ondelete="CASCADE"), primary_key=True
    )
    number: Mapped[int] = mapped_column(primary_key=True)
    size_bytes: Mapped[int]
    sha256: Mapped[str]


ASKED = {"asked": True}
"""The `info` of a column of jobs that is part of the request: a retry has the same value."""


@dataclass(frozen=True, slots=True)
class JobField:
    """A column of jobs as a field of filters, orders and groupings.

    Attributes:
        means: meaning, in one line for users.
        name: name in a filter; None for the name of the column.
        also: other names for it.
        allowed: values of the column, if there are few.
        is_indexed: whether a filter on it alone finds its first page at once, however many jobs
            there are.
    """

    means: str
    name: str | None = None
    also: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    is_indexed: bool = False


def _field(means: str, **more: Any) -> dict[str, object]:  # Any: the rest of JobField's members
    """Return the `info` of a column of jobs that filters can name."""
    return {"field": JobField(means, **more)}


class Job(Table):
    """One job: its spec, its state and its lease.

    The `info` of a column states its uses: `ASKED` and `JobField`. The columns that the API shows
    are those with a member of the same name in `adaptlab_answers.jobs.JobSummary`.

    `attempt` is the fencing token, `furthest_step` the largest step of any attempt but the current
    one, `error_fingerprint` identifies the error of the last failed attempt, and `retry_of` is the
    job of which this one is a retry. `name` is that which users gave it; a job that creates a base
    model has the name in its spec instead.
    """

    __tablename__ = "jobs"
    __table_args__ = (
        CheckConstraint(_one_of("state", JOB_STATES), name="state"),
        CheckConstraint(
            "(state = 'running') = (lease_expires_at IS NOT NULL)", name="running_has_lease"
        ),
        Index("ix_jobs_lanes", "queue", "priority", "owner_id", "created_at", "id",
              postgresql_where=text("state = 'queued'")),
        # No column of the lease is in an index, so that a heartbeat changes none.
        Index("ix_jobs_running_owner", "owner_id", postgresql_where=text("state = 'running'")),
        Index("ix_jobs_newest", text("created_at DESC"), text("id DESC")),
        Index("ix_jobs_project_newest", "project_id", text("created_at DESC"), text("id DESC")),
        Index("ix_jobs_owner_finished", "owner_id", "finished_at"),
        Index("ix_jobs_finished", "finished_at", "id"),
        Index("ix_jobs_digest", "spec_digest"),
        Index("ix_jobs_labels", "labels", postgresql_using="gin"),
        Index("ix_jobs_spec", "resolved_spec", postgresql_using="gin",
              postgresql_ops={"resolved_spec": "jsonb_path_ops"}),
        # With the columns by which results are grouped, so that no spec is read.
        Index("ix_jobs_results", "project_id", "id", postgresql_where=text("state = 'succeeded'"),
              postgresql_include=["kind", "base_model", "family", "task", "method",
                                  "budget_requested", "trainable_parameters"]),
        Index("ix_jobs_like", "kind", "task", "method", text("created_at DESC"), text("id DESC")),
        Index("ix_jobs_trainable", "trainable_parameters", "id"),
        Index("ix_jobs_retry_of", "retry_of", unique=True),
        Index("ix_jobs_archived", text("created_at DESC"), text("id DESC"),
              postgresql_where=text("archived_at IS NOT NULL")),
    )  # fmt: skip

    id: Mapped[uuid.UUID] = mapped_column(
        primary_key=True, info=_field("the job's id", also=("job",), is_indexed=True)
    )
    owner_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"))
    state: Mapped[str] = mapped_column(
        index=True, info=_field("state of the job", allowed=JOB_STATES, is_indexed=True)
    )
    reason: Mapped[str | None] = mapped_column(info=_field("reason for its state"))
    error: Mapped[str | None]
    kind: Mapped[str] = mapped_column(info=ASKED | _field("kind of job", allowed=get_args(Kind)))
    base_model: Mapped[str | None] = mapped_column(
        index=True, info=ASKED | _field("base model adapted", is_indexed=True)
    )
    family: Mapped[str] = mapped_column(info=ASKED | _field("family of the model"))
    task: Mapped[str | None] = mapped_column(
        index=True, info=ASKED | _field("task trained on", is_indexed=True)
    )
    method: Mapped[str | None] = mapped_column(
        index=True, info=ASKED | _field("adaptation method", is_indexed=True)
    )
    budget_requested: Mapped[int | None] = mapped_column(
        BigInteger,
        info=ASKED
        | _field(
            "requested budget, in trainable parameters",
            name="budget.requested",
            also=("budget_requested", "budget"),
        ),
    )
    trainable_parameters: Mapped[int] = mapped_column(
        BigInteger,
        info=ASKED
        | _field(
            "trainable parameters",
            name="budget.trainable",
            also=("trainable_parameters", "budget.trainable_parameters"),
            is_indexed=True,
        ),
    )
    spec: Mapped[Json] = mapped_column(info=ASKED)
    resolved_spec: Mapped[Json] = mapped_column(info=ASKED)
    spec_digest: Mapped[str] = mapped_column(
        info=ASKED | _field("equal for equal jobs", is_indexed=True)
    )
    labels: Mapped[Json] = mapped_column(info=ASKED)
    queue: Mapped[str] = mapped_column(info=ASKED | _field("queue that it waits in"))
    priority: Mapped[int] = mapped_column(info=ASKED | _field("priority in its queue"))
    max_seconds: Mapped[int] = mapped_column(info=ASKED)
    attempt: Mapped[int] = mapped_column(
        server_default="0", info=_field("number of its latest attempt")
    )
    attempts_max: Mapped[int] = mapped_column(server_default="3")
    worker_id: Mapped[uuid.UUID | None]
    lease_expires_at: Mapped[datetime | None]
    run_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    cancel_requested_at: Mapped[datetime | None]
    pause_requested_at: Mapped[datetime | None]
    step: Mapped[int] = mapped_column(server_default="0")
    total_steps: Mapped[int] = mapped_column(info=ASKED)
    phase: Mapped[str | None]
    phase_done: Mapped[int | None] = mapped_column(BigInteger)
    phase_total: Mapped[int | None] = mapped_column(BigInteger)
    phase_since: Mapped[datetime | None]
    event_sequence: Mapped[int] = mapped_column(server_default="0")
    created_at: Mapped[datetime] = mapped_column(
        server_default=func.clock_timestamp(), info=_field("time of submission", is_indexed=True)
    )
    started_at: Mapped[datetime | None] = mapped_column(info=_field("time of its first start"))
    finished_at: Mapped[datetime | None] = mapped_column(info=_field("time of its end"))
    heartbeat_at: Mapped[datetime | None]
    furthest_step: Mapped[int] = mapped_column(server_default="0")
    error_fingerprint: Mapped[str | None]
    retry_of: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("jobs.id", ondelete="SET NULL"))
    claim_id: Mapped[uuid.UUID | None]
    notes: Mapped[str | None]
    archived_at: Mapped[datetime | None] = mapped_column(info=_field("time when it was archived"))
    name: Mapped[str | None]


def asked_columns() -> tuple[Column[Any], ...]:  # Any: columns of several types
    """Return the columns of jobs that are part of the request."""
    return tuple(column for column in _columns_of_jobs() if column.info.get("asked"))


def column_fields() -> Mapping[str, JobField]:
    """Return the filter fields that are columns of jobs, by column name."""
    return {
        column.name: column.info["field"] for column in _columns_of_jobs() if "field" in column.info
    }


def _columns_of_jobs() -> Iterable[Column[Any]]:
    return Table.metadata.tables[Job.__tablename__].columns


class SpecNumber(Table):
    """A number that some job has at this path of its resolved spec.

    Numbers in lists are left out.

    For the numbers in a range, whose jobs are then looked up. A trigger adds those of new jobs. A
    number stays when its jobs are deleted, and can be repeated: with a unique index, jobs created
    at the same time would wait for each other.
    """

    __tablename__ = "spec_numbers"
    __table_args__ = (Index("ix_spec_numbers_path_number", "path", "number"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    path: Mapped[str]
    number: Mapped[Decimal] = mapped_column(Numeric)


class BaseModel(Table):
    """A named base model.

    Its weights are the checkpoints of the job that created it. If that is an import without
    checkpoints, they are in the model folder of its resolved spec.

    A project with which a base model is shared has a row of its own with the same job, so that
    everything that looks a base model up finds it there. `shared_from` is then the project of
    origin.
    """

    __tablename__ = "base_models"
    __table_args__ = (
        Index("ix_base_models_job", "job_id", unique=True,
              postgresql_where=text("shared_from IS NULL")),
        Index("ix_base_models_received", "project_id",
              postgresql_where=text("shared_from IS NOT NULL")),
    )  # fmt: skip

    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    job_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("jobs.id"), index=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    shared_from: Mapped[int | None] = mapped_column(ForeignKey("projects.id"))


class Dataset(Table):
    """An uploaded dataset; the artifact is its canonical content.

    `sources` are the packages that it comes from. For words, `lengths` counts triples by the
    characters of their longest form. For records, `fields` has the facts about each field except
    its values with their counts (`field_values`) and its buckets, which have a row of numbers per
    field. These two are large, and loaded only when needed. `reading` says how the file was read,
    and `origin` where it was fetched, null for other datasets.

    A project with which a dataset is shared has a row of its own with the same content, so that
    everything that looks a dataset up finds it there. `shared_from` is then the project of origin.
    """

    __tablename__ = "datasets"
    __table_args__ = (
        Index("ix_datasets_shared_from", "shared_from", "name",
              postgresql_where=text("shared_from IS NOT NULL")),
        CheckConstraint(
            "CASE kind "
            "WHEN 'words' THEN num_nonnulls(triples, characters, lengths) = 3 "
            "AND num_nonnulls(records, copies, fields, field_values, buckets) = 0 "
            "WHEN 'records' THEN num_nonnulls(triples, characters, lengths) = 0 "
            "AND num_nonnulls(records, copies, fields, field_values, buckets) = 5 "
            "ELSE false END",
            name="kind",
        ),
    )  # fmt: skip

    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    owner_id: Mapped[int] = mapped_column(ForeignKey("users.id"), index=True)
    artifact_sha256: Mapped[str] = mapped_column(ForeignKey("artifacts.sha256"), index=True)
    kind: Mapped[str] = mapped_column(server_default=text("'words'"))
    triples: Mapped[int | None]
    characters: Mapped[str | None]
    lengths: Mapped[list[int] | None] = mapped_column(ARRAY(Integer))
    records: Mapped[int | None]
    copies: Mapped[int | None]
    fields: Mapped[list[Any] | None] = mapped_column(JSONB(none_as_null=True))
    field_values: Mapped[list[Any] | None] = mapped_column(JSONB(none_as_null=True), deferred=True)
    buckets: Mapped[list[list[int]] | None] = mapped_column(
        ARRAY(Integer, dimensions=2), deferred=True
    )
    reading: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    origin: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    sources: Mapped[list[Any]] = mapped_column(JSONB)
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    shared_from: Mapped[int | None] = mapped_column(ForeignKey("projects.id"))


class UploadedFolder(Table):
    """A folder of a model or of a PEFT adapter, whose files are artifacts.

    `family` is that of the model, null for an adapter. `architecture` is that of the model, or the
    PEFT type of the adapter, and `dtype` has the types of the stored tensors; both are null for
    folders of earlier versions. `parameters` is the number of scalars. `origin` is where the files
    were fetched, null if they were uploaded.
    """

    __tablename__ = "uploaded_folders"
    __table_args__ = (
        CheckConstraint("(kind = 'model') = (family IS NOT NULL)", name="kind_has_family"),
    )

    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    owner_id: Mapped[int] = mapped_column(ForeignKey("users.id"), index=True)
    kind: Mapped[str] = mapped_column(server_default="model")
    family: Mapped[str | None]
    architecture: Mapped[str | None]
    dtype: Mapped[str | None]
    parameters: Mapped[int] = mapped_column(BigInteger)
    origin: Mapped[Json | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class UploadedFolderFile(Table):
    """A file of an uploaded folder.

    `fingerprint` is the digest in `ModelFile`; null for files that it does not cover.
    """

    __tablename__ = "uploaded_folder_files"
    __table_args__ = (
        ForeignKeyConstraint(
            ["project_id", "folder"],
            ["uploaded_folders.project_id", "uploaded_folders.name"],
            ondelete="CASCADE",
        ),
    )

    project_id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    folder: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    artifact_sha256: Mapped[str] = mapped_column(ForeignKey("artifacts.sha256"), index=True)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    fingerprint: Mapped[str | None]


class Study(Table):
    """One study: its spec, and the cells that were skipped.

    Its state follows from its jobs. `recipe` has the name and preset of the recipe from which the
    spec was made, if any. While `question_open`, the study plans further jobs when one has ended.
    """

    __tablename__ = "studies"
    __table_args__ = (
        Index("ix_studies_newest", text("created_at DESC"), text("id DESC")),
        Index("ix_studies_question_open", "id", postgresql_where=text("question_open")),
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
    labels: Mapped[Json] = mapped_column(server_default="{}")
    notes: Mapped[str | None]
    archived_at: Mapped[datetime | None]
    question_open: Mapped[bool] = mapped_column(Boolean, server_default=false())


class StudyShare(Table):
    """A project whose members can read a study of another project.

    The view `shared_jobs` follows from these rows and from shared base models: it has the jobs that
    a project can read besides its own.
    """

    __tablename__ = "study_shares"

    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    study_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class StudyLink(Table):
    """A link with which people without an account read one study.

    Only the SHA-256 of its token is stored. Without `expires_at` it stays valid until it is
    revoked.
    """

    __tablename__ = "study_links"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    study_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("studies.id", ondelete="CASCADE"), index=True
    )
    name: Mapped[str]
    digest: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    creator_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class StudyDecision(Table):
    """What a study with a question knew at one look, and decided.

    `look` is the whole `adaptlab.questions.planning.StudyKnowledge`. It follows from `question`,
    `hours` and `states`, which are those of all passes that had been planned before, by number.
    """

    __tablename__ = "study_decisions"

    study_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True
    )
    number: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    hours: Mapped[float]
    question: Mapped[Json]
    states: Mapped[Json]
    look: Mapped[Json]


class StudyPass(Table):
    """A pass that a study with a question planned, with its job.

    `planned_in` is the number of the decision that planned it. `state` is `open` until a decision
    sees that its job has ended, or drops it.
    """

    __tablename__ = "study_passes"
    __table_args__ = (
        CheckConstraint(_one_of("kind", PASS_KINDS), name="kind"),
        CheckConstraint(_one_of("state", PASS_STATES), name="state"),
        ForeignKeyConstraint(
            ["study_id", "planned_in"],
            ["study_decisions.study_id", "study_decisions.number"],
            ondelete="CASCADE",
        ),
    )

    study_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    base_model: Mapped[str]
    task: Mapped[str]
    method: Mapped[str]
    budget: Mapped[int] = mapped_column(BigInteger)
    kind: Mapped[str]
    seeds: Mapped[list[int]] = mapped_column(JSONB)
    rates: Mapped[list[float]] = mapped_column(JSONB)
    replicate_steps: Mapped[int] = mapped_column(BigInteger)
    reason: Mapped[str]
    job_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("jobs.id"), index=True)
    planned_in: Mapped[int]
    state: Mapped[str] = mapped_column(server_default="open")
    times_longer: Mapped[int] = mapped_column(server_default="1")


class StudyJob(Table):
    """A job in one cell of a study.

    A job with the role `sweep` only tries learning rates, and its scores are not compared. A job
    with the role `control` belongs to a diagnosis, and its scores are not compared either. A job
    with the role `base_model` has no other coordinate. A job with the role `check` has the
    label of a theory check. If it measures adaptations, it also has their method, and their cell if
    they belong to one. `budget` is the limit in trainable parameters of a row in the comparison; a
    method of fixed size has one job in many rows. `reused` marks a job that existed before.
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
    """A table of a comparison as it was computed.

    It is named by the digest of its inputs. `content` is its JSON. Every row can be computed again,
    and is deleted when long unused.
    """

    __tablename__ = "comparison_results"

    digest: Mapped[str] = mapped_column(primary_key=True)
    content: Mapped[str]
    size_bytes: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    used_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp(), index=True)


class IdempotencyKey(Table):
    """The answer to an earlier request with this key.

    It is the job or study that the request created.
    """

    __tablename__ = "idempotency_keys"
    __table_args__ = (
        CheckConstraint("num_nonnulls(job_id, study_id) = 1", name="one_answer"),
        Index("ix_idempotency_keys_job_id", "job_id",
              postgresql_where=text("job_id IS NOT NULL")),
    )  # fmt: skip

    owner_id: Mapped[int] = mapped_column(ForeignKey("users.id"), primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    request_digest: Mapped[str]
    job_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("jobs.id"))
    study_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("studies.id"))
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class JobEvent(Table):
    """An event of a job; never changed, and numbered from 1 within the job."""

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
    """A worker process that claims jobs.

    `unschedulable` is the reason if it takes none now. `model_roots` are the aliases of the roots
    that its trainers can read, null if it did not report them. `token_id` is the token with which
    it uses the API; null for one with a database connection. `load` is its last report of memory
    and GPUs. `lost_at` is when it was last found to be silent without having stopped; a later
    heartbeat makes it live again.
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
    model_roots: Mapped[list[str] | None] = mapped_column(ARRAY(Text))
    token_id: Mapped[int | None] = mapped_column(ForeignKey("tokens.id"))
    load: Mapped[Json | None] = mapped_column(JSONB(none_as_null=True))
    lost_at: Mapped[datetime | None]


class Webhook(Table):
    """An address to which events of a project are sent.

    The secret signs the messages, so it is stored as it is.
    """

    __tablename__ = "webhooks"
    __table_args__ = (CheckConstraint(_one_of("format", WEBHOOK_FORMATS), name="format"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"), index=True)
    owner_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    url: Mapped[str]
    format: Mapped[str]
    events: Mapped[list[str]] = mapped_column(ARRAY(Text))
    secret: Mapped[str]
    enabled: Mapped[bool] = mapped_column(Boolean, server_default=true())
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class WebhookEvent(Table):
    """A change for webhooks and trackers, written in its transaction.

    It is deleted when the deliveries that follow from it are written.
    """

    __tablename__ = "webhook_events"
    __table_args__ = (
        CheckConstraint("num_nonnulls(job_id, study_id, worker_id) = 1", name="one_subject"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"))
    job_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    study_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("studies.id", ondelete="CASCADE"))
    worker_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("workers.id"))
    at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class WebhookDelivery(Table):
    """One message to one webhook, and the outcome of sending it.

    `key` identifies the event, so that a webhook gets one message about it. A pending message is
    due at `next_attempt_at`; during an attempt, that is when another worker may try.
    """

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        CheckConstraint(_one_of("state", DELIVERY_STATES), name="state"),
        CheckConstraint("(state = 'pending') = (ended_at IS NULL)", name="ended_at"),
        UniqueConstraint("webhook_id", "key"),
        Index("ix_webhook_deliveries_due", "webhook_id", "next_attempt_at",
              postgresql_where=text("state = 'pending'")),
        Index("ix_webhook_deliveries_newest", "webhook_id", text("created_at DESC"),
              text("id DESC")),
        Index("ix_webhook_deliveries_job_id", "job_id",
              postgresql_where=text("job_id IS NOT NULL")),
    )  # fmt: skip

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    webhook_id: Mapped[int] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"))
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"))
    event: Mapped[str]
    key: Mapped[str]
    job_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    study_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("studies.id", ondelete="CASCADE"))
    worker_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("workers.id"))
    state: Mapped[str] = mapped_column(server_default="pending")
    attempts: Mapped[int] = mapped_column(server_default="0")
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    next_attempt_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    ended_at: Mapped[datetime | None]
    status: Mapped[int | None]
    error: Mapped[str | None]


class Tracker(Table):
    """A board to which the studies of a project are sent, one at a time.

    The token is sealed. `claims` counts the sendings: only the latest one may record anything. The
    next one may begin at `next_attempt_at`.
    """

    __tablename__ = "trackers"
    __table_args__ = (
        CheckConstraint(_one_of("kind", TRACKER_KINDS), name="kind"),
        UniqueConstraint("project_id", "kind", "url", "experiment"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"))
    owner_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    kind: Mapped[str]
    url: Mapped[str]
    experiment: Mapped[str]
    sealed: Mapped[bytes | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    claims: Mapped[int] = mapped_column(server_default="0")
    failures: Mapped[int] = mapped_column(server_default="0")
    next_attempt_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    sent_at: Mapped[datetime | None]


class TrackedStudy(Table):
    """A study on a tracker; `due_at` is null while the tracker has all of it.

    `changes` counts what has happened to it, so that nothing is missed that happens while it is
    sent. `sent` are the stamps of its ended jobs on the tracker, by id.
    """

    __tablename__ = "tracked_studies"
    __table_args__ = (
        Index("ix_tracked_studies_due", "tracker_id", "due_at",
              postgresql_where=text("due_at IS NOT NULL")),
    )  # fmt: skip

    tracker_id: Mapped[int] = mapped_column(
        ForeignKey("trackers.id", ondelete="CASCADE"), primary_key=True
    )
    study_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    changes: Mapped[int] = mapped_column(server_default="1")
    due_at: Mapped[datetime | None] = mapped_column(server_default=func.clock_timestamp())
    failures: Mapped[int] = mapped_column(server_default="0")
    error: Mapped[str | None]
    sent: Mapped[Json] = mapped_column(JSONB, server_default="{}")


class HubFetch(Table):
    """A model or dataset that is fetched from a hub.

    A model becomes the uploaded folder `name`. `dataset` has the configuration and split that
    become the dataset `name`, and is null for a model.

    An active one is due at `next_attempt_at`; while it is running, that is when another process may
    take over. `attempts` is the number of the attempt, which guards its writes; `failures` counts
    those that brought nothing. `base_model` are the members of the import that follows, null if
    none does. With `plan_only`, no weights are fetched. `bytes_begun` were there when the attempt
    began, at `begun_at`. With `push`, an adapter is written to the repository instead: its members
    are `checkpoint_id` and `is_public`.
    """

    __tablename__ = "hub_fetches"
    __table_args__ = (
        CheckConstraint(_one_of("state", FETCH_STATES), name="state"),
        CheckConstraint(
            f"({_one_of('state', ACTIVE_FETCH_STATES)}) = (ended_at IS NULL)", name="ended_at"
        ),
        Index("ix_hub_fetches_due", "next_attempt_at",
              postgresql_where=text(_one_of("state", ACTIVE_FETCH_STATES))),
        Index("ix_hub_fetches_active", "project_id", "name", unique=True,
              postgresql_where=text(_one_of("state", ACTIVE_FETCH_STATES))),
        Index("ix_hub_fetches_newest", text("created_at DESC"), text("id DESC")),
        Index("ix_hub_fetches_job_id", "job_id", postgresql_where=text("job_id IS NOT NULL")),
    )  # fmt: skip

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"))
    owner_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    name: Mapped[str]
    endpoint: Mapped[str]
    repository: Mapped[str]
    revision: Mapped[str]
    commit: Mapped[str | None]
    base_model: Mapped[Json | None]
    dataset: Mapped[Json | None] = mapped_column(JSONB(none_as_null=True))
    plan_only: Mapped[bool] = mapped_column(Boolean, server_default=false())
    plan: Mapped[Json | None]
    push: Mapped[Json | None]
    state: Mapped[str] = mapped_column(server_default="pending")
    attempts: Mapped[int] = mapped_column(server_default="0")
    failures: Mapped[int] = mapped_column(server_default="0")
    holder: Mapped[str | None]
    bytes_done: Mapped[int] = mapped_column(BigInteger, server_default="0")
    bytes_total: Mapped[int | None] = mapped_column(BigInteger)
    bytes_begun: Mapped[int] = mapped_column(BigInteger, server_default="0")
    begun_at: Mapped[datetime | None]
    code: Mapped[str | None]
    error: Mapped[str | None]
    job_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("jobs.id", ondelete="SET NULL"))
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    next_attempt_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    ended_at: Mapped[datetime | None]


class HubToken(Table):
    """A user's token of a hub, sealed by the server's key.

    `account` is the one that the hub gave for it, null if it was not asked.
    """

    __tablename__ = "hub_tokens"

    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), primary_key=True)
    endpoint: Mapped[str] = mapped_column(primary_key=True)
    sealed: Mapped[bytes] = mapped_column(LargeBinary)
    set_at: Mapped[datetime]
    account: Mapped[Json | None] = mapped_column(JSONB(none_as_null=True))


class AttemptRow(Table):
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
    worker_id: Mapped[uuid.UUID] = mapped_column(index=True)
    started_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    first_step_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    outcome: Mapped[str | None]
    reason: Mapped[str | None]
    error: Mapped[str | None]
    environment: Mapped[Json | None]
    usage: Mapped[Json | None]
    claim_id: Mapped[uuid.UUID | None] = mapped_column(index=True)


class AttemptCount(Table):
    """The number of attempts that ever ended with an outcome and a reason.

    A trigger counts them, so that deleted jobs stay counted. `reason` is empty without one. The
    shards add up; there are several so that few transactions wait for each other.
    """

    __tablename__ = "attempt_counts"

    outcome: Mapped[str] = mapped_column(primary_key=True)
    reason: Mapped[str] = mapped_column(primary_key=True)
    shard: Mapped[int] = mapped_column(primary_key=True)
    attempts: Mapped[int] = mapped_column(BigInteger)


class ClaimCount(Table):
    """The number of claims by how long the job could have been claimed.

    A trigger counts them, as it does attempts. `bucket` is a place among `CLAIM_BOUNDS`, from 0 for
    waits below the first bound to their number for those of the last or longer.
    """

    __tablename__ = "claim_counts"

    queue: Mapped[str] = mapped_column(primary_key=True)
    bucket: Mapped[int] = mapped_column(primary_key=True)
    shard: Mapped[int] = mapped_column(primary_key=True)
    claims: Mapped[int] = mapped_column(BigInteger)
    seconds: Mapped[float]


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
    validation_metric: Mapped[float | None]
    steps: Mapped[int]
    prompt: Mapped[dict[str, object] | None] = mapped_column(JSONB(none_as_null=True))


class MetricPointRow(Table):
    """One value of one curve; NULL if the value was not finite.

    Triggers instead of a foreign key tie it to its attempt. A key would look the attempt up for
    every point, triggers do so once per statement. They also delete the points of an attempt.
    """

    __tablename__ = "metric_points"

    job_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    replicate: Mapped[int] = mapped_column(primary_key=True)
    step: Mapped[int] = mapped_column(primary_key=True)
    value: Mapped[float | None]


class EvaluationRow(Table):
    """The score of one replicate on one task and split.

    It is the base model's if not `attached`. `base_model` is another one on which it was measured,
    empty for the job's own. `confusion` has the counts of given labels by right
    label, with the labels; null unless the task chooses among few. `loss` is the mean
    cross-entropy of counted tokens in nats; null if the task chooses. `effective_items` is the
    number of items that count if all of a group are alike; null unless the task names groups.
    """

    __tablename__ = "evaluations"
    __table_args__ = (
        ForeignKeyConstraint(
            ["job_id", "attempt"], ["attempts.job_id", "attempts.attempt"], ondelete="CASCADE"
        ),
        UniqueConstraint(
            *("job_id", "attempt", "replicate", "split", "attached", "task", "base_model"),
            name="uq_evaluations_measured",
        ),
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
    confusion: Mapped[Json | None] = mapped_column(JSONB(none_as_null=True))
    loss: Mapped[float | None]
    effective_items: Mapped[float | None]
    base_model: Mapped[str] = mapped_column(server_default="")


class JobMetric(Table):
    """One metric of a succeeded job over its seeds.

    Each seed counts with its selected trial. `seeds` and `values` belong together. A value that is
    a share of items has their number in `items`. `low` and `high` are the limits of the 95 %
    interval of the mean. The row follows from the results of the latest attempt, and is stored so
    that jobs can be filtered by it. It has the job's project, so that its visibility is known
    without the job.
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
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"))
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
    """The correct items of an evaluation, as packed bits in item order.

    `clusters` has the number of each item's group; null if the task names none.
    """

    __tablename__ = "item_outcomes"

    evaluation_id: Mapped[int] = mapped_column(
        ForeignKey("evaluations.id", ondelete="CASCADE"), primary_key=True
    )
    bits: Mapped[bytes] = mapped_column(LargeBinary)
    clusters: Mapped[list[int] | None] = mapped_column(ARRAY(Integer))


class MeasureRow(Table):
    """The value of a task's metric on the items of an evaluation.

    `statistics` are those of every item from whose sums the value follows, packed as by
    `adaptlab.runs.item_statistics`, and `floor` is the value that needs no skill, with its
    kind. Both are null in results of earlier versions. Values with different signatures are not
    compared; null is that of version 1.
    """

    __tablename__ = "measures"

    evaluation_id: Mapped[int] = mapped_column(
        ForeignKey("evaluations.id", ondelete="CASCADE"), primary_key=True
    )
    metric: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[float]
    statistics: Mapped[bytes | None] = mapped_column(LargeBinary)
    floor: Mapped[Json | None] = mapped_column(JSONB(none_as_null=True))
    signature: Mapped[str | None]


class ShownItems(Table):
    """The first test items of one scored task, as text.

    `task_place` is the task's place among the scored tasks of the job.
    """

    __tablename__ = "shown_items"
    __table_args__ = (
        ForeignKeyConstraint(
            ["job_id", "attempt"], ["attempts.job_id", "attempts.attempt"], ondelete="CASCADE"
        ),
    )

    job_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    task_place: Mapped[int] = mapped_column(primary_key=True)
    task: Mapped[Json]
    items: Mapped[list[Json]] = mapped_column(JSONB)


class GivenAnswers(Table):
    """The answers of one replicate to the shown items of a task, in order.

    They are the base model's if not `attached`.
    """

    __tablename__ = "given_answers"
    __table_args__ = (
        ForeignKeyConstraint(
            ["job_id", "attempt"], ["attempts.job_id", "attempts.attempt"], ondelete="CASCADE"
        ),
    )

    job_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    task_place: Mapped[int] = mapped_column(primary_key=True)
    replicate: Mapped[int] = mapped_column(primary_key=True)
    attached: Mapped[bool] = mapped_column(Boolean, primary_key=True)
    seed: Mapped[int] = mapped_column(BigInteger)
    answers: Mapped[list[Json]] = mapped_column(JSONB)


class AttentionMapRow(Table):
    """The attention patterns of one replicate.

    The array is an artifact in `.npy` format.
    """

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


class AttentionSummaryRow(Table):
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


class CheckpointRow(Table):
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


class TheoryReportRow(Table):
    """The result of one theory check.

    `place` is its position in the order of measurement.
    """

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
    """Content that was sent under a lease of a job.

    A result need not name it yet. Reports can name only content that was sent for their job, and
    all of it counts as stored. This row does not keep the artifact: if nothing else names it, both
    are deleted.
    """

    __tablename__ = "lease_artifacts"

    job_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True
    )
    sha256: Mapped[str] = mapped_column(
        ForeignKey("artifacts.sha256", ondelete="CASCADE"), primary_key=True, index=True
    )
    sent_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class TrainingStateRow(Table):
    """The newest saved state of a training that has not ended, one per job."""

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
