"""Saved training states of unfinished jobs.

A job resumes from its state after its worker is gone.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, ScalarSelect, delete, func, literal, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Session

from adaptlab.runs.inputs import InputFile, SavedTraining
from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.tables import Artifact, Job, MetricPointRow, TrainingStateRow
from adaptlab_services.lifecycle.held_leases import Lease


def save(session: Session, lease: Lease, step: int, sha256: str) -> None:
    """Store a state and discard the bytes of the job's earlier one.

    The caller has passed the fence of `lease` in this unit of work.
    """
    replaced = session.scalar(
        select(TrainingStateRow.artifact_sha256).where(TrainingStateRow.job_id == lease.job_id)
    )
    row: dict[str, Any] = {"attempt": lease.attempt, "step": step, "artifact_sha256": sha256}
    statement = upsert(TrainingStateRow).values(job_id=lease.job_id, **row)
    newer = row | {"saved_at": func.clock_timestamp()}
    session.execute(statement.on_conflict_do_update(index_elements=["job_id"], set_=newer))
    if replaced is not None and replaced != sha256:
        ArtifactStore(session).discard(replaced)


def take_over(session: Session, job_id: UUID, attempt: int) -> SavedTraining[InputFile] | None:
    """Return the state for a new attempt, and copy the curves up to it.

    The attempt resumes from that state. None if there is no state or its bytes are damaged; the
    attempt then starts from step 0.
    """
    state = session.execute(
        select(TrainingStateRow.attempt, TrainingStateRow.step, TrainingStateRow.artifact_sha256)
        .join(Artifact, Artifact.sha256 == TrainingStateRow.artifact_sha256)
        .where(TrainingStateRow.job_id == job_id, Artifact.state == "ready")
    ).one_or_none()
    if state is None:
        return None
    columns = ("job_id", "attempt", "name", "replicate", "step", "value")
    earlier = select(
        MetricPointRow.job_id,
        literal(attempt),
        MetricPointRow.name,
        MetricPointRow.replicate,
        MetricPointRow.step,
        MetricPointRow.value,
    ).where(
        MetricPointRow.job_id == job_id,
        MetricPointRow.attempt == state.attempt,
        MetricPointRow.step <= state.step,
    )
    copied = upsert(MetricPointRow).from_select(columns, earlier)
    session.execute(copied.on_conflict_do_nothing())  # a repeated claim has copied them already
    session.execute(
        update(Job)
        .where(Job.id == job_id)
        .values(step=state.step)
        .execution_options(synchronize_session=False)
    )
    return SavedTraining(step=state.step, state=InputFile(sha256=state.artifact_sha256))


def saved_step(job_id: ColumnElement[UUID]) -> ScalarSelect[Any]:
    """Return the step from which the next attempt resumes.

    It is a member of an event; NULL for step 0.
    """
    return (
        select(func.jsonb_build_object("resumed_from_step", TrainingStateRow.step))
        .join(Artifact, Artifact.sha256 == TrainingStateRow.artifact_sha256)
        .where(TrainingStateRow.job_id == job_id, Artifact.state == "ready")
        .scalar_subquery()
    )


def forget(session: Session, job_ids: Sequence[UUID]) -> None:
    """Delete the states of jobs that have ended, and discard their bytes."""
    deleted = session.scalars(
        delete(TrainingStateRow)
        .where(TrainingStateRow.job_id.in_(job_ids))
        .returning(TrainingStateRow.artifact_sha256)
        .execution_options(synchronize_session=False)
    )
    for sha256 in sorted(set(deleted)):
        ArtifactStore(session).discard(sha256)
