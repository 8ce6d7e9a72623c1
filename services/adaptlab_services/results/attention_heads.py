"""The heads of a job's attention maps, sorted, and figures per layer."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, Select, UnaryExpression, func, select
from sqlalchemy.orm import Session, aliased

from adaptlab.values import Value
from adaptlab_answers.drawable_maps import is_drawable
from adaptlab_db.tables import Artifact, AttentionMapRow, AttentionSummaryRow, Job
from adaptlab_services.results.results import latest_attempt

HeadOrder = Literal[
    "layer", "base_entropy", "entropy", "learned_mass", "divergence", "relative_deviation"
]
MOST_HEADS = 100


@dataclass(frozen=True, slots=True)
class Sorting:
    """The order of heads; `layer` is their order in the model."""

    by: HeadOrder = "layer"
    descending: bool = False


class MapOutline(Value):
    """An attention map without its samples and summaries."""

    id: int
    replicate: int
    seed: int
    source: str
    shape: tuple[int, ...]
    learned_positions: int
    target_start: int
    sha256: str
    size: int


class HeadRow(Value):
    """Figures of one head for one seed, after adaptation if the job adapts.

    `base_entropy` is the entropy before. `least_moved` and `most_moved` are the smallest and the
    largest relative deviation of this head over all seeds.
    """

    layer: int
    head: int
    base_entropy: float | None
    entropy: float
    learned_mass: float
    divergence: float
    relative_deviation: float
    least_moved: float
    most_moved: float


class HeadRows(Value):
    """A slice of the sorted heads; `total` counts all of them."""

    data: tuple[HeadRow, ...]
    total: int


class LayerFacts(Value):
    """Extremes over all heads and seeds of one layer, after adaptation."""

    layer: int
    least_learned_mass: float
    most_learned_mass: float
    divergence: float
    relative_deviation: float


class StrongestHead(NamedTuple):
    """The head with the largest divergence from the base model."""

    replicate: int
    seed: int
    layer: int
    head: int


def outlines(session: Session, job_id: UUID) -> tuple[MapOutline, ...]:
    """Return the latest attempt's drawable maps; raises `Absent`.

    They are sorted by replicate, the base model's map before the adapted one's.
    """
    attempt = latest_attempt(session, job_id)
    whole = AttentionMapRow
    columns = (whole.id, whole.replicate, whole.seed, whole.source, whole.shape)
    places = (whole.learned_positions, whole.target_start)
    rows = session.execute(
        select(*columns, *places, Artifact.sha256, Artifact.size)
        .join(Artifact, Artifact.sha256 == whole.artifact_sha256)
        .where(whole.job_id == job_id, whole.attempt == attempt)
        .order_by(whole.replicate, whole.source.desc())
    )
    maps = (MapOutline.model_validate(row, from_attributes=True) for row in rows)
    return tuple(
        outline
        for outline in maps
        if is_drawable(outline.shape, outline.size, outline.learned_positions, outline.target_start)
    )


def jobs_with_maps(session: Session, job_ids: Collection[UUID]) -> frozenset[UUID]:
    """Return the jobs whose latest attempt has maps after adaptation."""
    whole = AttentionMapRow
    rows = session.scalars(
        select(whole.job_id)
        .join(Job, (Job.id == whole.job_id) & (Job.attempt == whole.attempt))
        .where(whole.job_id.in_(job_ids), whole.source == "adapted")
        .distinct()
    )
    return frozenset(rows)


def strongest_head(session: Session, maps: Sequence[MapOutline]) -> StrongestHead | None:
    """Return the head of the first replicate that adaptation changed most.

    None without a map after adaptation.
    """
    adapted = next((one for one in maps if one.source == "adapted"), None)
    if adapted is None:
        return None
    row = AttentionSummaryRow
    first = session.execute(
        select(row.layer, row.head)
        .where(row.map_id == adapted.id)
        .order_by(row.divergence.desc().nulls_last(), row.layer, row.head)
        .limit(1)
    ).one_or_none()
    if first is None:
        return None
    return StrongestHead(adapted.replicate, adapted.seed, first.layer, first.head)


def heads(
    session: Session,
    maps: Sequence[MapOutline],
    replicate: int,
    sorting: Sorting = Sorting(),
    offset: int = 0,
    limit: int = MOST_HEADS,
) -> HeadRows:
    """Return a slice of the sorted heads of one replicate.

    It has at most `MOST_HEADS`. Heads without a value for the sorting come last in both directions.
    """
    shown = shown_map(maps, replicate)
    if shown is None:
        return HeadRows(data=(), total=0)
    base = next((m.id for m in maps if m.replicate == replicate and m.source == "base"), None)
    before = aliased(AttentionSummaryRow)
    same_source = [m.id for m in maps if m.source == shown.source]
    query = _heads(shown.id, base, same_source, before)
    rows = session.execute(
        query.order_by(*_order(sorting, before)).offset(offset).limit(min(limit, MOST_HEADS))
    ).all()
    data = tuple(HeadRow.model_validate(row, from_attributes=True) for row in rows)
    return HeadRows(data=data, total=rows[0].total if rows else 0)


def shown_map(maps: Sequence[MapOutline], replicate: int) -> MapOutline | None:
    """Return the map of a replicate to show: adapted if it exists, else base."""
    by_source = {m.source: m for m in maps if m.replicate == replicate}
    return by_source.get("adapted") or by_source.get("base")


def _heads(
    shown: int, base: int | None, others: Sequence[int], before: type[AttentionSummaryRow]
) -> Select[Any]:  # Any: columns of several types
    row, every = AttentionSummaryRow, aliased(AttentionSummaryRow)
    moved = (
        select(
            every.layer,
            every.head,
            func.min(every.relative_deviation).label("least_moved"),
            func.max(every.relative_deviation).label("most_moved"),
        )
        .where(every.map_id.in_(others))
        .group_by(every.layer, every.head)
        .subquery()
    )
    same = (before.map_id == base) & (before.layer == row.layer) & (before.head == row.head)
    figures = (row.entropy, row.learned_mass, row.divergence, row.relative_deviation)
    return (
        select(row.layer, row.head, *figures, before.entropy.label("base_entropy"))
        .add_columns(moved.c.least_moved, moved.c.most_moved, func.count().over().label("total"))
        .join(moved, (moved.c.layer == row.layer) & (moved.c.head == row.head))
        .outerjoin(before, same)
        .where(row.map_id == shown)
    )


def _order(sorting: Sorting, before: type[AttentionSummaryRow]) -> list[ColumnElement[Any]]:
    """Return the columns to sort by; `Any`, because their types differ."""
    row = AttentionSummaryRow
    if sorting.by == "layer":
        return [_turned(column, sorting) for column in (row.layer, row.head)]
    by = before.entropy if sorting.by == "base_entropy" else getattr(row, sorting.by)
    return [_turned(by, sorting).nulls_last(), row.layer.asc(), row.head.asc()]


def _turned(column: Any, sorting: Sorting) -> UnaryExpression[Any]:  # Any: as above
    ordered: UnaryExpression[Any] = column.desc() if sorting.descending else column.asc()
    return ordered


def layers(session: Session, maps: Sequence[MapOutline]) -> tuple[LayerFacts, ...]:
    """Return one line per layer over all adapted maps; empty without any."""
    adapted = [m.id for m in maps if m.source == "adapted"]
    if not adapted:
        return ()
    row = AttentionSummaryRow
    rows = session.execute(
        select(
            row.layer,
            func.min(row.learned_mass).label("least_learned_mass"),
            func.max(row.learned_mass).label("most_learned_mass"),
            func.max(row.divergence).label("divergence"),
            func.max(row.relative_deviation).label("relative_deviation"),
        )
        .where(row.map_id.in_(adapted))
        .group_by(row.layer)
        .order_by(row.layer)
    )
    return tuple(LayerFacts.model_validate(facts, from_attributes=True) for facts in rows)
