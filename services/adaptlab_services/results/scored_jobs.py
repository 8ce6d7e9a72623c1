"""The measurements of jobs, as comparisons need them, in a few queries."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Row, ScalarSelect, func, select, true
from sqlalchemy.orm import Session, aliased

from adaptlab.plugins.metric import is_measured_against_base, is_share, lowest_is_best
from adaptlab.runs.events import (
    Confusion,
    Environment,
    Evaluation,
    ReplicateResult,
)
from adaptlab.specs.resolved import Resolved, UnreadSpec, read_resolved
from adaptlab.specs.spec import ResolvedSpec
from adaptlab_db import tables
from adaptlab_db.tables import (
    AttemptRow,
    AttentionMapRow,
    AttentionSummaryRow,
    BaseModel,
    ItemOutcome,
    Job,
    Replicate,
)
from adaptlab_services.lifecycle.measures import measures_of, with_metric

FIRST_LAYER = 0
JobRow = Row[*tuple[Any, ...]]  # columns of several types


@dataclass(frozen=True, slots=True)
class TaskScore:
    """A replicate's score on one task; the base model's own unless `attached`."""

    replicate: int
    task: Mapping[str, object]
    split: str
    attached: bool
    correct: int
    total: int
    effective_items: float | None


@dataclass(frozen=True)
class ScoredJob:
    """A job with the measurements of its latest attempt.

    Attributes:
        evaluations: chosen replicates on the job's own task, adapted, with every outcome.
        base_scores: on the tasks of its base model, with and without the adaptation.
        watched: on every scored task, with and without the adaptation, with every outcome.
        base_alone: the accuracies of the base model alone on the job's own task.
        carried: on the job's own task and other base models, by their names, likewise.
        half_losses: by replicate, the training loss at about half of its steps.
        has_imported_base: the base model was imported, so it has a single replicate.
        seconds: from the start to the end of the latest attempt, None unless both are known.
        ended: when the latest attempt ended.
        deviations: by seed, the largest `relative_deviation` of all heads of the first layer, as
            captured and so not always finite.
    """

    id: UUID
    state: str
    reason: str | None
    error: str | None
    step: int
    total_steps: int
    spec: ResolvedSpec
    has_imported_base: bool
    environment: Environment | None
    replicates: tuple[ReplicateResult, ...]
    half_losses: Mapping[int, float]
    evaluations: tuple[Evaluation, ...]
    base_scores: tuple[TaskScore, ...]
    watched: tuple[Evaluation, ...]
    base_alone: tuple[float, ...]
    carried: Mapping[str, tuple[TaskScore, ...]]
    deviations: Mapping[int, float]
    created: datetime
    ended: datetime | None
    seconds: float | None = None

    @cached_property
    def resolved(self) -> Resolved | UnreadSpec:
        """The spec with its plug-ins, or the error if one is not installed."""
        return read_resolved(self.spec)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that the job trains."""
        return self.spec.seeds


def scored_jobs(session: Session, job_ids: Collection[UUID]) -> dict[UUID, ScoredJob]:
    """Return these jobs by id; unsuccessful ones have no measurements."""
    rows = _jobs(session, job_ids)
    done = [row.id for row in rows if row.state == "succeeded"]
    replicates, halves = _replicates(session, done)
    own_task = tables.EvaluationRow.task == Job.resolved_spec["task"]
    evaluations = adapted_scores(session, done, own_task)
    watched = adapted_scores(session, done, detached=True)
    base_scores, alone = _base_scores(session, done)
    carried = _carried(session, done)
    deviations = _deviations(session, done)
    return {
        row.id: _scored(
            row,
            replicates=tuple(replicates[row.id]),
            half_losses=halves[row.id],
            evaluations=_chosen(evaluations[row.id], replicates[row.id]),
            base_scores=tuple(base_scores[row.id]),
            watched=_of_selected(watched[row.id], replicates[row.id]),
            base_alone=tuple(alone[row.id]),
            carried={name: tuple(scores) for name, scores in carried[row.id].items()},
            deviations=deviations[row.id],
        )
        for row in rows
    }


def watched_scores(jobs: Sequence[ScoredJob]) -> tuple[Evaluation, ...]:
    """Return the scores on every task, with and without the adaptation.

    The first job with a seed counts.
    """
    seen: set[int] = set()
    found: list[Evaluation] = []
    for number, job in enumerate(jobs):
        ours = [one for one in job.watched if one.seed not in seen]
        seen |= {one.seed for one in ours}
        offset = number * 2**20  # replicates are numbered within a job
        found += [one.model_copy(update={"replicate": offset + one.replicate}) for one in ours]
    return tuple(found)


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
        has_imported_base=row.has_imported_base,
        environment=None if environment is None else Environment.model_validate(environment),
        seconds=None if row.seconds is None else float(row.seconds),
        created=row.created_at,
        ended=row.ended_at,
        **measured,
    )


def _jobs(session: Session, job_ids: Collection[UUID]) -> Sequence[JobRow]:
    """Return the jobs, the first created first, which then counts for a seed."""
    latest = (AttemptRow.job_id == Job.id) & (AttemptRow.attempt == Job.attempt)
    columns = (Job.id, Job.state, Job.reason, Job.error, Job.step, Job.total_steps)
    seconds = func.extract("epoch", AttemptRow.ended_at - AttemptRow.started_at).label("seconds")
    return session.execute(
        select(*columns, Job.resolved_spec, AttemptRow.environment, seconds, _has_imported_base())
        .add_columns(Job.created_at, AttemptRow.ended_at)
        .outerjoin(AttemptRow, latest)
        .where(Job.id.in_(job_ids))
        .order_by(Job.created_at, Job.id)
    ).all()


def _has_imported_base() -> ColumnElement[bool]:
    maker = aliased(Job)
    return (
        select(BaseModel.name)
        .join(maker, maker.id == BaseModel.job_id)
        .where(BaseModel.name == Job.base_model, BaseModel.project_id == Job.project_id)
        .where(maker.kind == "import")
        .correlate(Job)
        .exists()
        .label("has_imported_base")
    )


def _replicates(
    session: Session, job_ids: Collection[UUID]
) -> tuple[Mapping[UUID, list[ReplicateResult]], Mapping[UUID, dict[int, float]]]:
    """Return every replicate's result, and its training loss half way."""
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
    """Select a replicate's last training loss in the first half of its steps."""
    point = tables.MetricPointRow
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
    session: Session,
    job_ids: Collection[UUID],
    *conditions: ColumnElement[bool],
    elsewhere: bool = False,
    detached: bool = False,
) -> Mapping[UUID, list[Evaluation]]:
    """Return the adapted models' test scores with every outcome, by job.

    They are those on the jobs' own base models or, if `elsewhere`, on the other ones. If
    `detached`, those of the base models alone are among them, and of metrics only the distance from
    the base, and those of which a share is retained.
    """
    row = tables.EvaluationRow
    attached = row.attached if not detached else true()
    scores = (row.replicate, row.seed, row.task, row.correct, row.total, row.base_model)
    others = (row.confusion, row.loss)
    rows = session.execute(
        select(row.id, row.job_id, row.attached, *scores, *others)
        .add_columns(ItemOutcome.bits, ItemOutcome.clusters)
        .join(Job, (Job.id == row.job_id) & (Job.attempt == row.attempt))
        .join(ItemOutcome, ItemOutcome.evaluation_id == row.id)
        .where(row.job_id.in_(job_ids), row.split == "test", attached, *conditions)
        .where((row.base_model != "") if elsewhere else (row.base_model == ""))
        .order_by(row.job_id, row.replicate, row.id)
    ).all()
    measured = [one for one in rows if not detached or _is_kept(one.task)]
    measures = measures_of(session, with_metric(measured))
    by_job: dict[UUID, list[Evaluation]] = defaultdict(list)
    for found in rows:
        confusion = found.confusion
        by_job[found.job_id].append(
            Evaluation(
                replicate=found.replicate,
                seed=found.seed,
                task=found.task,
                split="test",
                attached=found.attached,
                correct=found.correct,
                total=found.total,
                outcomes=found.bits.hex(),
                clusters=tuple(found.clusters or ()),
                confusion=None if confusion is None else Confusion.model_validate(confusion),
                measures=measures.get(found.id, ()),
                loss=found.loss,
                base_model=found.base_model or None,
            )
        )
    return by_job


def _is_kept(task: Mapping[str, object]) -> bool:
    name = task.get("metric")
    return is_measured_against_base(name) or (is_share(name) and not lowest_is_best(name))


def _base_scores(
    session: Session, job_ids: Collection[UUID]
) -> tuple[Mapping[UUID, list[TaskScore]], Mapping[UUID, list[float]]]:
    """Return the scores on the tasks that the base models were pretrained on.

    And the accuracies of the base models alone on the jobs' own tasks.
    """
    scored = tables.EvaluationRow
    counts = (scored.correct, scored.total, scored.effective_items)
    columns = (scored.job_id, scored.replicate, scored.task, scored.split, scored.attached, *counts)
    is_of_base = Job.resolved_spec["base_tasks"].contains(func.jsonb_build_array(scored.task))
    is_alone = ~scored.attached & (scored.task == Job.resolved_spec["task"])
    rows = session.execute(
        select(*columns, is_of_base, is_alone)
        .join(Job, (Job.id == scored.job_id) & (Job.attempt == scored.attempt))
        .where(
            scored.job_id.in_(job_ids),
            scored.split == "test",
            scored.base_model == "",
            is_of_base | is_alone,
        )
        .order_by(scored.job_id, scored.id)
    )
    of_bases: dict[UUID, list[TaskScore]] = defaultdict(list)
    accuracies: dict[UUID, list[float]] = defaultdict(list)
    for row in rows:
        job_id, replicate, task, split, attached, correct, total, effective, of_base, alone = row
        one = TaskScore(replicate, task, split, attached, correct, total, effective)
        if of_base:
            of_bases[job_id].append(one)
        if alone:
            accuracies[job_id].append(one.correct / one.total)
    return of_bases, accuracies


def _carried(
    session: Session, job_ids: Collection[UUID]
) -> Mapping[UUID, Mapping[str, list[TaskScore]]]:
    """Return the scores on the jobs' own tasks and other base models."""
    row = tables.EvaluationRow
    counts = (row.correct, row.total, row.effective_items)
    columns = (row.replicate, row.task, row.split, row.attached, *counts)
    rows = session.execute(
        select(row.job_id, row.base_model, *columns)
        .join(Job, (Job.id == row.job_id) & (Job.attempt == row.attempt))
        .where(
            row.job_id.in_(job_ids),
            row.split == "test",
            row.base_model != "",
            row.task == Job.resolved_spec["task"],
        )
        .order_by(row.job_id, row.base_model, row.id)
    )
    by_job: dict[UUID, dict[str, list[TaskScore]]] = defaultdict(lambda: defaultdict(list))
    for job_id, name, replicate, task, split, attached, correct, total, effective in rows:
        score = TaskScore(replicate, task, split, attached, correct, total, effective)
        by_job[job_id][name].append(score)
    return by_job


def _deviations(session: Session, job_ids: Collection[UUID]) -> Mapping[UUID, dict[int, float]]:
    """Return the first layer's largest relative deviation, by job and seed."""
    rows = session.execute(
        select(
            AttentionMapRow.job_id,
            AttentionMapRow.seed,
            func.max(AttentionSummaryRow.relative_deviation),
        )
        .join(AttentionSummaryRow, AttentionSummaryRow.map_id == AttentionMapRow.id)
        .join(Job, (Job.id == AttentionMapRow.job_id) & (Job.attempt == AttentionMapRow.attempt))
        .where(
            AttentionMapRow.job_id.in_(job_ids),
            AttentionMapRow.source == "adapted",
            AttentionSummaryRow.layer == FIRST_LAYER,
        )
        .group_by(AttentionMapRow.job_id, AttentionMapRow.seed)
    )
    by_job: dict[UUID, dict[int, float]] = defaultdict(dict)
    for job_id, seed, deviation in rows:
        by_job[job_id][seed] = deviation
    return by_job


def _chosen(
    evaluations: Sequence[Evaluation], replicates: Sequence[ReplicateResult]
) -> tuple[Evaluation, ...]:
    chosen = {result.replicate for result in replicates if result.selected}
    return tuple(_of_chosen(evaluations, chosen))


def _of_selected(
    evaluations: Sequence[Evaluation], replicates: Sequence[ReplicateResult]
) -> tuple[Evaluation, ...]:
    selected = {result.replicate for result in replicates if result.selected}
    return tuple(one for one in evaluations if one.replicate in selected)


def _of_chosen(evaluations: Sequence[Evaluation], chosen: set[int]) -> Iterator[Evaluation]:
    """Yield one evaluation per seed, of its chosen trial."""
    seen: set[int] = set()
    for evaluation in evaluations:
        if evaluation.replicate in chosen and evaluation.seed not in seen:
            seen.add(evaluation.seed)
            yield evaluation
