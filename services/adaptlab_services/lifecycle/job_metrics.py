"""What a job measured, each figure over its seeds: kept when it succeeds, to be looked for by."""

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from uuid import UUID

from sqlalchemy import Row, insert, select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.orm import Session

from adaptlab.measurements.results import is_loss
from adaptlab.statistics import seed_limits
from adaptlab.statistics.distributions import student_quantile
from adaptlab_db.tables import Evaluation, Job, JobMetric, MetricPoint, Replicate

CURVES = ("train_loss", "validation_loss", "validation_accuracy")
METRICS: Mapping[str, str] = MappingProxyType(
    {
        "accuracy": "exact match on the test items of the job's own task",
        "base_accuracy": "likewise for the base model alone, for adaptations",
        "accuracy_change": "accuracy minus base_accuracy, per seed",
        "final_loss": "the final training loss",
        "train_loss": "the last point of the curve of this name",
        "validation_loss": "the last point of the curve of this name",
        "validation_accuracy": "the last point of the curve of this name",
    }
)
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Measured:
    """One figure of one seed; `items` says of how many items it is a share, if it is one."""

    seed: int
    value: float
    items: int | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """A figure over seeds; `sd` divides by n - 1, `low` and `high` limit the mean at 95 %.

    None where one seed cannot tell.
    """

    n: int
    mean: float
    sd: float | None
    low: float | None
    high: float | None
    min: float
    max: float


def keep(session: Session, job_ids: Collection[UUID]) -> None:
    """Write down what the latest attempts of these jobs measured; they have just succeeded."""
    found: dict[tuple[UUID, str], list[Measured]] = defaultdict(list)
    chosen = _chosen(session, job_ids)
    if not chosen:
        return
    for job_id, name, measured in (
        *_losses(chosen),
        *_scores(session, chosen),
        *_last_points(session, chosen),
    ):
        if is_loss(measured.value):
            found[job_id, name].append(measured)
    rows = [_row(job_id, name, several) for (job_id, name), several in found.items()]
    if rows:
        session.execute(insert(JobMetric), rows)


def summary(measured: Sequence[Measured]) -> Summary:
    """The figure over seeds, each of which counts once.

    The interval of a share of items is that of `seed_limits` of core, any other Student's t.
    """
    values = [one.value for one in measured]
    mean = math.fsum(values) / len(values)
    sd = statistics.stdev(values) if len(values) > 1 else None
    low, high = _limits(measured, mean, sd)
    return Summary(len(values), mean, sd, low, high, min(values), max(values))


def _limits(
    measured: Sequence[Measured], mean: float, sd: float | None
) -> tuple[float, float] | tuple[None, None]:
    items = [one.items for one in measured if one.items is not None]
    if len(items) == len(measured):
        right = [round(one.value * of) for one, of in zip(measured, items, strict=True)]
        return seed_limits(right, items, LEVEL)
    if sd is None:
        return None, None
    freedom = len(measured) - 1
    reach = student_quantile(freedom, (1 + LEVEL) / 2) * sd / math.sqrt(len(measured))
    return mean - reach, mean + reach


Chosen = Mapping[tuple[UUID, int], Row[UUID, int, int, int, float | None]]
"""By job and replicate: the replicate that answers for its seed."""
Found = Iterator[tuple[UUID, str, Measured]]


def _chosen(session: Session, job_ids: Collection[UUID]) -> Chosen:
    row = Replicate
    rows = session.execute(
        select(row.job_id, row.attempt, row.replicate, row.seed, row.final_loss)
        .join(Job, (Job.id == row.job_id) & (Job.attempt == row.attempt))
        .where(row.job_id.in_(job_ids), row.selected)
        .order_by(row.job_id, row.seed, row.replicate)
        .ext(distinct_on(row.job_id, row.seed))
    )
    return {(found.job_id, found.replicate): found for found in rows}


def _losses(chosen: Chosen) -> Found:
    for (job_id, _), row in chosen.items():
        if row.final_loss is not None:
            yield job_id, "final_loss", Measured(row.seed, row.final_loss)


def _scores(session: Session, chosen: Chosen) -> Found:
    """The scores on the own task, of the adapted and of the base model, and their difference."""
    row = Evaluation
    rows = session.execute(
        select(row.job_id, row.replicate, row.attached, row.correct, row.total)
        .join(Job, (Job.id == row.job_id) & (Job.attempt == row.attempt))
        .where(
            row.job_id.in_({job_id for job_id, _ in chosen}),
            row.split == "test",
            row.task == Job.resolved_spec["task"],
        )
        .order_by(row.attached, row.id)
    )
    alone: dict[tuple[UUID, int], float] = {}
    for job_id, replicate, attached, correct, total in rows:
        place = (job_id, replicate)
        if place not in chosen:
            continue
        seed, value = chosen[place].seed, correct / total
        yield job_id, "accuracy" if attached else "base_accuracy", Measured(seed, value, total)
        if not attached:
            alone[place] = value
        elif place in alone:
            yield job_id, "accuracy_change", Measured(seed, value - alone[place])


def _last_points(session: Session, chosen: Chosen) -> Found:
    point = MetricPoint
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
            yield job_id, name, Measured(chosen[job_id, replicate].seed, value)


def _row(job_id: UUID, name: str, measured: Sequence[Measured]) -> dict[str, object]:
    in_order = sorted(measured, key=lambda one: one.seed)
    items = [one.items for one in in_order if one.items is not None]
    figures = summary(in_order)
    return {
        "job_id": job_id,
        "name": name,
        "seeds": [one.seed for one in in_order],
        "values": [one.value for one in in_order],
        "items": items or None,
        **{field: getattr(figures, field) for field in Summary.__slots__},
    }
