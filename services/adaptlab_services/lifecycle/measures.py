"""The metrics of evaluations beside the share of right items."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import case, literal, select
from sqlalchemy.orm import Session

from adaptlab.plugins.metric import measured_on, metric_named, metrics
from adaptlab.runs.events import Measure, MetricFloor
from adaptlab.runs.item_statistics import as_text, from_text, unpacked
from adaptlab_db import tables


def values_of(row: Any, measures: Sequence[Measure]) -> dict[str, float]:
    """Return the values by metric of an evaluation's row.

    They are those that are kept, and those that follow from its task, confusion and loss.
    """
    counts = row.confusion and row.confusion["counts"]
    kept = {measure.metric: measure.value for measure in measures}
    found = ((one.name, one.known(kept, row.task, counts, row.loss)) for one in metrics())
    return {name: value for name, value in found if value is not None}


def caution_of(measures: Sequence[tuple[Measure, int]]) -> str | None:
    """Return what to know before reading a metric's values, None if nothing.

    They are those of seeds on one task, with their numbers of items.
    """
    metric = metric_named(measures[0][0].metric) if measures else None
    if metric is None:
        return None
    tables = [
        unpacked(from_text(measure.statistics), items, metric.columns)
        for measure, items in measures
        if measure.statistics is not None
    ]
    return metric.caution(np.concatenate(tables)) if tables else None


def with_metric(rows: Iterable[Any]) -> tuple[int, ...]:
    """Return the numbers of evaluations whose task is measured by metrics."""
    return tuple(row.id for row in rows if measured_on(row.task))


def measures_of(
    session: Session, evaluation_ids: Collection[int], *, with_statistics: bool = True
) -> Mapping[int, tuple[Measure, ...]]:
    """Return the metrics of evaluations, by evaluation.

    They are read `with_statistics` by item, or only with their values. Evaluations without a metric
    are left out.
    """
    if not evaluation_ids:
        return {}
    row = tables.MeasureRow
    found = session.execute(
        select(
            row.evaluation_id,
            row.metric,
            row.value,
            row.floor,
            row.signature,
            case((literal(with_statistics), row.statistics)).label("statistics"),
        )
        .where(row.evaluation_id.in_(evaluation_ids))
        .order_by(row.evaluation_id, row.metric)
    )
    by_evaluation: dict[int, tuple[Measure, ...]] = defaultdict(tuple)
    for one in found:
        measure = Measure(
            metric=one.metric,
            value=one.value,
            statistics=None if one.statistics is None else as_text(one.statistics),
            floor=None if one.floor is None else MetricFloor.model_validate(one.floor),
            signature=one.signature,
        )
        by_evaluation[one.evaluation_id] += (measure,)
    return by_evaluation
