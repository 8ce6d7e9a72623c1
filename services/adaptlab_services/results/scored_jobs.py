"""What jobs have measured, as comparisons need it: a few queries, however many jobs."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Float, Row, ScalarSelect, cast, func, select
from sqlalchemy.orm import Session

from adaptlab.measurements.results import Environment, Evaluation, ReplicateResult
from adaptlab.specs.resolved import Resolved, UnreadSpec, read_resolved
from adaptlab.specs.spec import ResolvedSpec
from adaptlab_db import tables
from adaptlab_db.tables import Attempt, AttentionMap, AttentionSummary, ItemOutcome, Job, Replicate

FIRST_LAYER = 0
JobRow = Row[*tuple[Any, ...]]  # columns of several types


@dataclass(frozen=True, slots=True)
class TaskScore:
    """The score of one replicate on one task; the base model's own where not `attached`."""

    replicate: int
    task: Mapping[str, object]
    split: str
    attached: bool
    correct: int
    total: int


@dataclass(frozen=True)
class ScoredJob:
    """A job, and what its latest attempt measured.

    Attributes:
        evaluations: on the job's own task, adapted, of the chosen replicates, with every outcome.
        base_scores: on the tasks of its base model, with and without the adaptation.
        half_losses: by replicate, the training loss at about half of its steps.
        deviations: by seed, the largest `relative_deviation` of all heads of the first layer, as
            it was captured and so not always finite.
    """

    id: UUID
    state: str
    reason: str | None
    error: str | None
    step: int
    total_steps: int
    spec: ResolvedSpec
    environment: Environment | None
    replicates: tuple[ReplicateResult, ...]
    half_losses: Mapping[int, float]
    evaluations: tuple[Evaluation, ...]
    base_scores: tuple[TaskScore, ...]
    deviations: Mapping[int, float]

    @cached_property
    def resolved(self) -> Resolved | UnreadSpec:
        """The spec with its plug-ins, as far as they are installed."""
        return read_resolved(self.spec)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that it trains."""
        return self.spec.seeds

    @property
    def first_layer_deviation(self) -> float | None:
        """The largest of them; None without a capture, and where one is no number."""
        found = self.deviations.values()
        return max(found) if found and all(map(math.isfinite, found)) else None


def scored_jobs(session: Session, job_ids: Collection[UUID]) -> dict[UUID, ScoredJob]:
    """These jobs by id; of jobs that have not succeeded nothing is taken as measured."""
    rows = _jobs(session, job_ids)
    done = [row.id for row in rows if row.state == "succeeded"]
    replicates, halves = _replicates(session, done)
    own_task = tables.Evaluation.task == Job.resolved_spec["task"]
    evaluations = adapted_scores(session, done, own_task)
    base_scores = _base_scores(session, done)
    deviations = _deviations(session, done)
    return {
        row.id: _scored(
            row,
            replicates=tuple(replicates[row.id]),
            half_losses=halves[row.id],
            evaluations=_chosen(evaluations[row.id], replicates[row.id]),
            base_scores=tuple(base_scores[row.id]),
            deviations=deviations[row.id],
        )
        for row in rows
    }


def _scored(row: JobRow, **measured: Any) -> ScoredJob:  # Any: the fields' own types
    environment = row.environment if row.state == "succeeded" else None
    return ScoredJob(
        id=row.id,
        state=row.state,
        reason=row.reason,
        error=row.error,
        step=row.step,
        total_steps=row.total_steps,
        spec=ResolvedSpec.model_validate(row.resolved_spec),
        environment=None if environment is None else Environment.model_validate(environment),
        **measured,
    )


def _jobs(session: Session, job_ids: Collection[UUID]) -> Sequence[JobRow]:
    """The jobs, the first made first, so that it is the first that answers for a seed."""
    latest = (Attempt.job_id == Job.id) & (Attempt.attempt == Job.attempt)
    columns = (Job.id, Job.state, Job.reason, Job.error, Job.step, Job.total_steps)
    return session.execute(
        select(*columns, Job.resolved_spec, Attempt.environment)
        .outerjoin(Attempt, latest)
        .where(Job.id.in_(job_ids))
        .order_by(Job.created_at, Job.id)
    ).all()


def _replicates(
    session: Session, job_ids: Collection[UUID]
) -> tuple[Mapping[UUID, list[ReplicateResult]], Mapping[UUID, dict[int, float]]]:
    """How every replicate ended, and its training loss half way."""
    fields = tuple(ReplicateResult.model_fields)
    columns = [getattr(Replicate, name) for name in fields]
    rows = session.execute(
        select(Replicate.job_id, _half_loss().label("half_loss"), *columns)
        .join(Job, (Job.id == Replicate.job_id) & (Job.attempt == Replicate.attempt))
        .where(Replicate.job_id.in_(job_ids))
        .order_by(Replicate.job_id, Replicate.replicate)
    )
    ended: dict[UUID, list[ReplicateResult]] = defaultdict(list)
    halves: dict[UUID, dict[int, float]] = defaultdict(dict)
    for job_id, half, *values in rows:
        result = ReplicateResult.model_validate(dict(zip(fields, values, strict=True)))
        ended[job_id].append(result)
        if half is not None and math.isfinite(half):
            halves[job_id][result.replicate] = half
    return ended, halves


def _half_loss() -> ScalarSelect[float | None]:
    """The last training loss of a replicate that was kept in the first half of its steps."""
    point = tables.MetricPoint
    return (
        select(point.value)
        .where(
            point.job_id == Replicate.job_id,
            point.attempt == Replicate.attempt,
            point.name == "train_loss",
            point.replicate == Replicate.replicate,
            point.step <= Replicate.steps // 2,
        )
        .order_by(point.step.desc())
        .limit(1)
        .correlate(Replicate)
        .scalar_subquery()
    )


def adapted_scores(
    session: Session, job_ids: Collection[UUID], *conditions: ColumnElement[bool]
) -> Mapping[UUID, list[Evaluation]]:
    """The adapted models' scores on the test split, with every outcome, by job."""
    row = tables.Evaluation
    scores = (row.replicate, row.seed, row.task, row.correct, row.total)
    rows = session.execute(
        select(row.job_id, *scores, ItemOutcome.bits)
        .join(Job, (Job.id == row.job_id) & (Job.attempt == row.attempt))
        .join(ItemOutcome, ItemOutcome.evaluation_id == row.id)
        .where(row.job_id.in_(job_ids), row.split == "test", row.attached, *conditions)
        .order_by(row.job_id, row.replicate, row.id)
    )
    found: dict[UUID, list[Evaluation]] = defaultdict(list)
    for job_id, replicate, seed, task, correct, total, bits in rows:
        found[job_id].append(
            Evaluation(
                replicate=replicate,
                seed=seed,
                task=task,
                split="test",
                correct=correct,
                total=total,
                outcomes=bits.hex(),
            )
        )
    return found


def base_alone(session: Session, job_ids: Collection[UUID]) -> float | None:
    """The mean accuracy of the base models alone on the jobs' own tasks; None if not scored."""
    row = tables.Evaluation
    return session.execute(
        select(func.avg(cast(row.correct, Float) / row.total))
        .join(Job, (Job.id == row.job_id) & (Job.attempt == row.attempt))
        .where(
            row.job_id.in_(job_ids),
            row.split == "test",
            ~row.attached,
            row.task == Job.resolved_spec["task"],
        )
    ).scalar_one()


def _base_scores(session: Session, job_ids: Collection[UUID]) -> Mapping[UUID, list[TaskScore]]:
    """The scores on what the base models were pretrained on."""
    row = tables.Evaluation
    columns = (row.job_id, row.replicate, row.task, row.split, row.attached, row.correct, row.total)
    rows = session.execute(
        select(*columns)
        .join(Job, (Job.id == row.job_id) & (Job.attempt == row.attempt))
        .where(
            row.job_id.in_(job_ids),
            row.split == "test",
            Job.resolved_spec["base_tasks"].contains(func.jsonb_build_array(row.task)),
        )
        .order_by(row.job_id, row.id)
    )
    found: dict[UUID, list[TaskScore]] = defaultdict(list)
    for job_id, replicate, task, split, attached, correct, total in rows:
        found[job_id].append(TaskScore(replicate, task, split, attached, correct, total))
    return found


def _deviations(session: Session, job_ids: Collection[UUID]) -> Mapping[UUID, dict[int, float]]:
    """How far relative attention moved in the first layer, by seed, over trials and heads."""
    rows = session.execute(
        select(
            AttentionMap.job_id, AttentionMap.seed, func.max(AttentionSummary.relative_deviation)
        )
        .join(AttentionSummary, AttentionSummary.map_id == AttentionMap.id)
        .join(Job, (Job.id == AttentionMap.job_id) & (Job.attempt == AttentionMap.attempt))
        .where(
            AttentionMap.job_id.in_(job_ids),
            AttentionMap.source == "adapted",
            AttentionSummary.layer == FIRST_LAYER,
        )
        .group_by(AttentionMap.job_id, AttentionMap.seed)
    )
    found: dict[UUID, dict[int, float]] = defaultdict(dict)
    for job_id, seed, deviation in rows:
        found[job_id][seed] = deviation
    return found


def _chosen(
    evaluations: Sequence[Evaluation], replicates: Sequence[ReplicateResult]
) -> tuple[Evaluation, ...]:
    return tuple(_of_chosen(evaluations, {one.replicate for one in replicates if one.selected}))


def _of_chosen(evaluations: Sequence[Evaluation], chosen: set[int]) -> Iterator[Evaluation]:
    """One evaluation a seed, of the trial that was chosen for it."""
    seen: set[int] = set()
    for one in evaluations:
        if one.replicate in chosen and one.seed not in seen:
            seen.add(one.seed)
            yield one
