"""Metrics of succeeded jobs, summarised over seeds and stored for queries."""

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Row, func, insert, select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.orm import Session

from adaptlab.plugins.metric import lowest_is_best, metric_named, metrics
from adaptlab.runs.events import is_loss
from adaptlab.statistics import seed_limits
from adaptlab.statistics.confusions import mean_over_seeds
from adaptlab_db.tables import EvaluationRow, Job, JobMetric, MetricPointRow, Replicate
from adaptlab_services.lifecycle.measures import measures_of, values_of, with_metric

CURVES = ("train_loss", "validation_loss", "validation_accuracy")
OF_EVERY_TASK: Mapping[str, str] = MappingProxyType(
    {
        "accuracy": "exact match on the test items of the job's own task",
        "base_accuracy": "likewise for the base model alone, for adaptations",
        "accuracy_change": "accuracy minus base_accuracy, per seed",
        "transfer_accuracy": "exact match on the job's own task of what was found, on other base "
        "models; their mean, for seeds with a score on all of them",
        "transfer_change": "transfer_accuracy minus the accuracy of those base models alone",
        "final_loss": "the final training loss",
        "train_loss": "the last point of the curve of this name",
        "validation_loss": "the last point of the curve of this name",
        "validation_accuracy": "the last point of the curve of this name",
    }
)
_LOSSES = ("final_loss", "train_loss", "validation_loss")
_OF_A_LOSS, _OF_A_CHANGE = (0.0, math.inf), (-1.0, 1.0)
_LIMITS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "accuracy_change": _OF_A_CHANGE,
        "transfer_change": _OF_A_CHANGE,
        "validation_accuracy": (0.0, 1.0),
        **dict.fromkeys(_LOSSES, _OF_A_LOSS),
    }
)
"""The least and the largest value of metrics that are no shares of items."""
LEVEL = 0.95


def catalogue() -> Mapping[str, str]:
    """Return what every metric is, by its name."""
    return {**OF_EVERY_TASK, **{metric.name: metric.meaning for metric in metrics()}}


def is_lowest_best(name: str) -> bool:
    """Return True if the lowest mean of a metric is the best."""
    return name in _LOSSES or lowest_is_best(name)


def limits_of(name: str) -> tuple[float, float]:
    """Return the limits of a metric that is no share of items."""
    metric = metric_named(name)
    return _LIMITS.get(name, (-math.inf, math.inf)) if metric is None else metric.limits


class _Names(NamedTuple):
    """Metrics of adapted model, base model alone and their difference."""

    adapted: str
    alone: str | None
    change: str


OWN = _Names("accuracy", "base_accuracy", "accuracy_change")
TRANSFER = _Names("transfer_accuracy", None, "transfer_change")


@dataclass(frozen=True, slots=True)
class SeedMetric:
    """The value of a metric for one seed.

    `items` is set if the value is a share of that many items, and `effective` if they are in
    groups: the number that counts if all of a group are alike.
    """

    seed: int
    value: float
    items: int | None = None
    effective: float | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """A metric over seeds.

    `sd` divides by n - 1; `low` and `high` limit the mean at 95 %. None where one seed is too few.
    """

    n: int
    mean: float
    sd: float | None
    low: float | None
    high: float | None
    min: float
    max: float


def keep(session: Session, job_ids: Collection[UUID]) -> None:
    """Store the metrics of the latest attempts of jobs that just succeeded."""
    values: dict[tuple[UUID, str], list[SeedMetric]] = defaultdict(list)
    chosen = _chosen(session, job_ids)
    if not chosen:
        return
    for job_id, name, measured in (
        *_losses(chosen),
        *_scores(session, chosen),
        *_other_metrics(session, chosen),
        *_last_points(session, chosen),
    ):
        if is_loss(measured.value):
            values[job_id, name].append(measured)
    projects = {job_id: row.project_id for (job_id, _), row in chosen.items()}
    rows = [
        {"job_id": job_id, "project_id": projects[job_id], "name": name, **_figures(name, measured)}
        for (job_id, name), measured in values.items()
    ]
    if rows:
        session.execute(insert(JobMetric), rows)


def summary(name: str, measured: Sequence[SeedMetric]) -> Summary:
    """Summarise a metric's values over seeds, each of which counts once.

    Shares of items get the interval of `adaptlab.statistics.seed_limits`, others Student's t, cut
    at the limits of the metric.
    """
    values = [seed.value for seed in measured]
    mean = math.fsum(values) / len(values)
    sd = statistics.stdev(values) if len(values) > 1 else None
    low, high = _limits(measured, limits_of(name))
    return Summary(len(values), mean, sd, low, high, min(values), max(values))


def _limits(
    measured: Sequence[SeedMetric], ends: tuple[float, float]
) -> tuple[float | None, float | None]:
    items = [seed.items for seed in measured if seed.items is not None]
    if len(items) == len(measured):
        correct = [round(seed.value * total) for seed, total in zip(measured, items, strict=True)]
        effective = [seed.effective or items[place] for place, seed in enumerate(measured)]
        return seed_limits(correct, items, LEVEL, effective)
    found = mean_over_seeds([seed.value for seed in measured], LEVEL, ends)
    return found.low, found.high


Chosen = Mapping[tuple[UUID, int], Row[UUID, int, int, int, float | None]]
"""The replicate that was selected for each seed, by job and replicate."""
Values = Iterator[tuple[UUID, str, SeedMetric]]


def _chosen(session: Session, job_ids: Collection[UUID]) -> Chosen:
    row = Replicate
    rows = session.execute(
        select(row.job_id, Job.project_id, row.replicate, row.seed, row.final_loss)
        .join(Job, (Job.id == row.job_id) & (Job.attempt == row.attempt))
        .where(row.job_id.in_(job_ids), row.selected)
        .order_by(row.job_id, row.seed, row.replicate)
        .ext(distinct_on(row.job_id, row.seed))
    )
    return {(row.job_id, row.replicate): row for row in rows}


def _losses(chosen: Chosen) -> Values:
    for (job_id, _), row in chosen.items():
        if row.final_loss is not None:
            yield job_id, "final_loss", SeedMetric(row.seed, row.final_loss)


def _scores(session: Session, chosen: Chosen) -> Values:
    """Yield the scores of adapted and base model, and their difference.

    The scores are those on the job's own task, on its own base model and on the other ones. They
    are on the same items everywhere, so a mean over base models is a share of all items.
    """
    row = EvaluationRow
    others = func.jsonb_array_length(Job.resolved_spec["evaluation_bases"])
    scored = (row.job_id, row.replicate, row.attached)
    rows = session.execute(
        select(
            *scored,
            func.max(row.base_model) != "",
            func.sum(row.correct).label("correct"),
            func.sum(row.total).label("total"),
            func.sum(row.effective_items).label("effective"),
        )
        .join(Job, (Job.id == row.job_id) & (Job.attempt == row.attempt))
        .where(
            row.job_id.in_({job_id for job_id, _ in chosen}),
            row.split == "test",
            row.task == Job.resolved_spec["task"],
        )
        .group_by(*scored, row.base_model != "", Job.id)
        .having((func.max(row.base_model) == "") | (func.count() == others))
        .order_by(row.attached, *scored)
    )
    alone: dict[tuple[UUID, int, bool], float] = {}
    for job_id, replicate, attached, is_elsewhere, correct, total, effective in rows:
        if (job_id, replicate) not in chosen:
            continue
        place = (job_id, replicate, is_elsewhere)
        names = TRANSFER if is_elsewhere else OWN
        seed, value = chosen[job_id, replicate].seed, correct / total
        if not attached:
            alone[place] = value
        if (name := names.adapted if attached else names.alone) is not None:
            yield job_id, name, SeedMetric(seed, value, total, effective)
        if attached and place in alone:
            yield job_id, names.change, SeedMetric(seed, value - alone[place])


def _other_metrics(session: Session, chosen: Chosen) -> Values:
    """Yield the adapted model's other metrics on the job's own task."""
    row = EvaluationRow
    rows = session.execute(
        select(row.id, row.job_id, row.replicate, row.task, row.confusion, row.loss)
        .join(Job, (Job.id == row.job_id) & (Job.attempt == row.attempt))
        .where(
            row.job_id.in_({job_id for job_id, _ in chosen}),
            row.split == "test",
            row.attached,
            row.base_model == "",
            row.task == Job.resolved_spec["task"],
            row.confusion.is_not(None) | row.task.has_key("metric"),
        )
        .order_by(row.job_id, row.replicate)
    ).all()
    measures = measures_of(session, with_metric(rows), with_statistics=False)
    for found in rows:
        if (found.job_id, found.replicate) not in chosen:
            continue
        seed = chosen[found.job_id, found.replicate].seed
        for name, value in values_of(found, measures.get(found.id, ())).items():
            yield found.job_id, name, SeedMetric(seed, value)


def _last_points(session: Session, chosen: Chosen) -> Values:
    point = MetricPointRow
    rows = session.execute(
        select(point.job_id, point.name, point.replicate, point.value)
        .join(Job, (Job.id == point.job_id) & (Job.attempt == point.attempt))
        .where(
            point.job_id.in_({job_id for job_id, _ in chosen}),
            point.name.in_(CURVES),
            point.replicate.in_({replicate for _, replicate in chosen}),
        )
        .order_by(point.job_id, point.name, point.replicate, point.step.desc())
        .ext(distinct_on(point.job_id, point.name, point.replicate))
    )
    for job_id, name, replicate, value in rows:
        if (job_id, replicate) in chosen and value is not None:
            yield job_id, name, SeedMetric(chosen[job_id, replicate].seed, value)


def _figures(name: str, measured: Sequence[SeedMetric]) -> dict[str, object]:
    in_order = sorted(measured, key=lambda value: value.seed)
    items = [value.items for value in in_order if value.items is not None]
    figures = summary(name, in_order)
    return {
        "seeds": [value.seed for value in in_order],
        "values": [value.value for value in in_order],
        "items": items or None,
        **{field: getattr(figures, field) for field in Summary.__slots__},
    }
