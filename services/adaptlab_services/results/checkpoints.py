"""Checkpoints: trained tensors of replicates, as safetensors files."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab_answers.results import CheckpointLinks, CheckpointList, CheckpointView
from adaptlab_db.tables import Artifact, CheckpointRow
from adaptlab_services.errors import Absent
from adaptlab_services.results.results import latest_attempt
from adaptlab_services.storage.stored_files import StoredFile


def of_job(session: Session, job_id: UUID) -> CheckpointList:
    """Return the checkpoints of a job's latest attempt; raises `Absent`."""
    attempt = latest_attempt(session, job_id)
    rows = session.execute(
        select(CheckpointRow, Artifact.size)
        .join(Artifact, Artifact.sha256 == CheckpointRow.artifact_sha256)
        .where(CheckpointRow.job_id == job_id, CheckpointRow.attempt == attempt)
        .order_by(CheckpointRow.replicate, CheckpointRow.kind)
    )
    return CheckpointList(data=tuple(_view(row, size) for row, size in rows), attempt=attempt)


def get(session: Session, checkpoint_id: int) -> CheckpointView:
    """Return one checkpoint of any attempt; raises `Absent`."""
    row = session.execute(
        select(CheckpointRow, Artifact.size)
        .join(Artifact, Artifact.sha256 == CheckpointRow.artifact_sha256)
        .where(CheckpointRow.id == checkpoint_id)
    ).one_or_none()
    if row is None:
        raise Absent("checkpoint", checkpoint_id)
    checkpoint, size = row
    return _view(checkpoint, size)


def content(session: Session, checkpoint_id: int) -> StoredFile:
    """Return the file of one checkpoint; raises `Absent`."""
    checkpoint = get(session, checkpoint_id)
    return StoredFile(
        sha256=checkpoint.sha256,
        size=checkpoint.size,
        filename=f"{checkpoint.kind}-seed-{checkpoint.seed}-{checkpoint_id}.safetensors",
        media_type="application/octet-stream",
    )


def _view(row: CheckpointRow, size: int) -> CheckpointView:
    return CheckpointView(
        id=row.id,
        job_id=row.job_id,
        replicate=row.replicate,
        seed=row.seed,
        kind=row.kind,
        parameters=row.parameters,
        tensors=row.tensors,
        sha256=row.artifact_sha256,
        size=size,
        created_at=row.created_at,
        links=CheckpointLinks(
            content=f"/v1/checkpoints/{row.id}/content", job=f"/v1/jobs/{row.job_id}"
        ),
    )
