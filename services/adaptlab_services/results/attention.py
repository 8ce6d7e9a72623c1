"""Attention maps of a job's latest attempt, with summaries per head."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab.runs.events import AttentionSource, AttentionSummary
from adaptlab_answers.attention import MapLinks, Maps, MapView
from adaptlab_db.tables import Artifact, AttentionMapRow, AttentionSummaryRow
from adaptlab_services.errors import Absent
from adaptlab_services.results.results import latest_attempt
from adaptlab_services.storage.stored_files import StoredFile


@dataclass(frozen=True, slots=True)
class MapFilter:
    """Conditions on maps and their summaries; None matches all."""

    source: AttentionSource | None = None
    replicate: int | None = None
    layer: int | None = None
    head: int | None = None


def maps(session: Session, job_id: UUID, wanted: MapFilter = MapFilter()) -> Maps:
    """Return the attention maps of the latest attempt, with their summaries."""
    attempt = latest_attempt(session, job_id)
    query = (
        select(AttentionMapRow, Artifact.size)
        .join(Artifact, Artifact.sha256 == AttentionMapRow.artifact_sha256)
        .where(AttentionMapRow.job_id == job_id, AttentionMapRow.attempt == attempt)
        .order_by(AttentionMapRow.replicate, AttentionMapRow.source.desc())
    )
    if wanted.source is not None:
        query = query.where(AttentionMapRow.source == wanted.source)
    if wanted.replicate is not None:
        query = query.where(AttentionMapRow.replicate == wanted.replicate)
    rows = session.execute(query).all()
    summaries = _summaries(session, [row.AttentionMapRow.id for row in rows], wanted)
    data = tuple(_view(row, size, summaries.get(row.id, ())) for row, size in rows)
    return Maps(data=data, attempt=attempt)


def content(session: Session, job_id: UUID, map_id: int) -> StoredFile:
    """Return the `.npy` file of one map of a job; raises `Absent`."""
    row = session.execute(
        select(AttentionMapRow, Artifact.size)
        .join(Artifact, Artifact.sha256 == AttentionMapRow.artifact_sha256)
        .where(AttentionMapRow.job_id == job_id, AttentionMapRow.id == map_id)
    ).one_or_none()
    if row is None:
        raise Absent("attention map", map_id)
    attention_map, size = row
    return StoredFile(
        sha256=attention_map.artifact_sha256,
        size=size,
        filename=f"attention-{attention_map.source}-seed-{attention_map.seed}-{map_id}.npy",
        media_type="application/octet-stream",
    )


def _summaries(
    session: Session, map_ids: list[int], wanted: MapFilter
) -> dict[int, tuple[AttentionSummary, ...]]:
    query = select(AttentionSummaryRow).where(AttentionSummaryRow.map_id.in_(map_ids))
    if wanted.layer is not None:
        query = query.where(AttentionSummaryRow.layer == wanted.layer)
    if wanted.head is not None:
        query = query.where(AttentionSummaryRow.head == wanted.head)
    order = (AttentionSummaryRow.map_id, AttentionSummaryRow.layer, AttentionSummaryRow.head)
    by_map: dict[int, tuple[AttentionSummary, ...]] = {}
    for row in session.execute(query.order_by(*order)).scalars():
        by_map[row.map_id] = (*by_map.get(row.map_id, ()), _summary(row))
    return by_map


def _summary(row: AttentionSummaryRow) -> AttentionSummary:
    return AttentionSummary.model_validate(
        {name: getattr(row, name) for name in AttentionSummary.model_fields}
    )


def _view(row: AttentionMapRow, size: int, summaries: Iterable[AttentionSummary]) -> MapView:
    return MapView(
        id=row.id,
        replicate=row.replicate,
        seed=row.seed,
        source=row.source,
        shape=tuple(row.shape),
        axes=tuple(row.axes),
        learned_positions=row.learned_positions,
        target_start=row.target_start,
        tokens=row.samples.get("tokens", ()),
        predictions=row.samples.get("predictions", ()),
        texts=row.samples.get("texts", ()),
        sha256=row.artifact_sha256,
        size=size,
        summaries=tuple(summaries),
        links=MapLinks(content=f"/v1/jobs/{row.job_id}/attention/{row.id}/content"),
    )
