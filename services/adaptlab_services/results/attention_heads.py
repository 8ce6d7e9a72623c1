"""The heads of one job as a table that the database sorts, and what is said of its layers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import ColumnElement, Select, UnaryExpression, func, select
from sqlalchemy.orm import Session, aliased

from adaptlab.values import Value
from adaptlab_answers.drawable_maps import is_drawable
from adaptlab_db.tables import Artifact, AttentionMap, AttentionSummary
from adaptlab_services.results.results import latest_attempt

HeadOrder = Literal[
    "layer", "base_entropy", "entropy", "learned_mass", "divergence", "relative_deviation"
]
MOST_HEADS = 100


@dataclass(frozen=True, slots=True)
class Sorting:
    """By which figure heads are sorted; `layer` is the order in which they stand in the model."""

    by: HeadOrder = "layer"
    descending: bool = False


class MapOutline(Value):
    """An attention map without its samples and its summaries: what there is to choose from."""

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
    """One head of one seed, adapted where there is an adaptation.

    `base_entropy` is its entropy before. `least_moved` and `most_moved` are the smallest and the
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
    """Some heads in the order asked for; `total` is how many there are."""

    data: tuple[HeadRow, ...]
    total: int


class LayerFacts(Value):
    """What all heads and seeds of one layer have in common, after the adaptation."""

    layer: int
    least_learned_mass: float
    most_learned_mass: float
    divergence: float
    relative_deviation: float


def outlines(session: Session, job_id: UUID) -> tuple[MapOutline, ...]:
    """The maps of the latest attempt that can be drawn, by replicate; raises `NotFound`."""
    attempt = latest_attempt(session, job_id)
    whole = AttentionMap
    columns = (whole.id, whole.replicate, whole.seed, whole.source, whole.shape)
    places = (whole.learned_positions, whole.target_start)
    rows = session.execute(
        select(*columns, *places, Artifact.sha256, Artifact.size)
        .join(Artifact, Artifact.sha256 == whole.artifact_sha256)
        .where(whole.job_id == job_id, whole.attempt == attempt)
        .order_by(whole.replicate, whole.source.desc())
    )
    found = (MapOutline.model_validate(row, from_attributes=True) for row in rows)
    return tuple(
        one
        for one in found
        if is_drawable(one.shape, one.size, one.learned_positions, one.target_start)
    )


def heads(
    session: Session,
    maps: Sequence[MapOutline],
    replicate: int,
    sorting: Sorting = Sorting(),
    offset: int = 0,
    limit: int = MOST_HEADS,
) -> HeadRows:
    """The heads of one replicate, sorted; at most `MOST_HEADS` at a time.

    A head without a figure before the adaptation comes last whichever way it is sorted.
    """
    shown = shown_map(maps, replicate)
    if shown is None:
        return HeadRows(data=(), total=0)
    base = next((m.id for m in maps if m.replicate == replicate and m.source == "base"), None)
    before = aliased(AttentionSummary)
    others = [one.id for one in maps if one.source == shown.source]
    query = _heads(shown.id, base, others, before)
    found = session.execute(
        query.order_by(*_order(sorting, before)).offset(offset).limit(min(limit, MOST_HEADS))
    ).all()
    rows = tuple(HeadRow.model_validate(one, from_attributes=True) for one in found)
    return HeadRows(data=rows, total=found[0].total if found else 0)


def shown_map(maps: Sequence[MapOutline], replicate: int) -> MapOutline | None:
    """The map of a replicate to show: the adapted one if it is there, else the base's."""
    ours = {one.source: one for one in maps if one.replicate == replicate}
    return ours.get("adapted") or ours.get("base")


def _heads(
    shown: int, base: int | None, others: Sequence[int], before: type[AttentionSummary]
) -> Select[Any]:  # Any: columns of several types
    row, every = AttentionSummary, aliased(AttentionSummary)
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


def _order(sorting: Sorting, before: type[AttentionSummary]) -> list[ColumnElement[Any]]:
    """Any: columns of several types."""
    row = AttentionSummary
    if sorting.by == "layer":
        return [_turned(one, sorting) for one in (row.layer, row.head)]
    by = before.entropy if sorting.by == "base_entropy" else getattr(row, sorting.by)
    return [_turned(by, sorting).nulls_last(), row.layer.asc(), row.head.asc()]


def _turned(column: Any, sorting: Sorting) -> UnaryExpression[Any]:  # Any: as above
    ordered: UnaryExpression[Any] = column.desc() if sorting.descending else column.asc()
    return ordered


def layers(session: Session, maps: Sequence[MapOutline]) -> tuple[LayerFacts, ...]:
    """One line a layer over all adapted maps; none where nothing was adapted."""
    adapted = [one.id for one in maps if one.source == "adapted"]
    if not adapted:
        return ()
    row = AttentionSummary
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
    return tuple(LayerFacts.model_validate(one, from_attributes=True) for one in rows)
